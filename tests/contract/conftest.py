"""Fixtures that run the real tools of the contracts."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.docker.engine import Engine

IMAGE_SECONDS = 1800  # limit for any program in the node image
PYTHON = "/opt/orchestrator/bin/python"


@dataclass(frozen=True)
class ProgramResult:
    """Exit code and output of a program."""

    code: int
    text: str


class Root:
    """A copy of a Terraform root that tests plan and apply."""

    def __init__(self, terraform: str, directory: Path) -> None:
        self.terraform, self.directory = terraform, directory

    def run(self, *argv: str) -> ProgramResult:
        finished = subprocess.run(
            [self.terraform, *argv],
            cwd=self.directory,
            env={**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"},
            capture_output=True,  # only standard output is read: warnings go to standard error
            text=True,
            check=False,
        )
        return ProgramResult(finished.returncode, finished.stdout)

    def json(self, *argv: str) -> Any:
        result = self.run(*argv)
        assert result.code == 0, result.text
        return json.loads(result.text)

    def write_variables(self, variables: Mapping[str, Any]) -> None:
        (self.directory / "terraform.tfvars.json").write_text(json.dumps(variables))

    def problems(self, variables: Mapping[str, Any]) -> list[str]:
        """Return the errors of a plan with these variables, one sentence each."""
        self.write_variables(variables)
        lines = (json.loads(line) for line in self.run("plan", "-input=false", "-json").text.splitlines())
        diagnostics = [line["diagnostic"] for line in lines if line.get("type") == "diagnostic"]
        return [d["detail"].splitlines()[0] for d in diagnostics if d["severity"] == "error"]


@pytest.fixture
def root(terraform: str, tmp_path: Path) -> Callable[[str], Root]:
    """Return a function that copies terraform/<name> with the contract and initialises it."""

    def make(name: str) -> Root:
        copy = tmp_path / "terraform"
        shutil.copytree(
            packaged_files.directory("terraform"), copy, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*")
        )
        copied = Root(terraform, copy / name)
        result = copied.run("init", "-input=false", "-no-color")
        assert result.code == 0, result.text
        return copied

    return make


@pytest.fixture
def ansible() -> Callable[..., ProgramResult]:
    """Return a function that runs one of Ansible's programs of this environment in the playbooks' directory."""

    def run(program: str, *argv: str) -> ProgramResult:
        finished = subprocess.run(
            [Path(sys.executable).with_name(program), *argv],
            cwd=packaged_files.directory("ansible"),
            env={**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ProgramResult(finished.returncode, finished.stdout)

    return run


@pytest.fixture(scope="session")
def in_image(docker_engine: Engine, node_image: str) -> Callable[..., ProgramResult]:
    """Return a function that runs a program in a throw-away container of the node image, without network."""

    def run(argv: Sequence[str], mounts: Mapping[Path, str] | None = None, **environment: str) -> ProgramResult:
        volumes = {str(path): {"bind": target, "mode": "ro"} for path, target in (mounts or {}).items()}
        container = docker_engine.client.containers.run(
            node_image,
            list(argv[1:]),
            entrypoint=[argv[0]],
            environment=environment,
            volumes=volumes,
            network_mode="none",
            hostname="localhost",  # Gloo resolves its own host name
            detach=True,
        )
        try:
            code = container.wait(timeout=IMAGE_SECONDS)["StatusCode"]
            return ProgramResult(code, container.logs().decode(errors="replace"))
        finally:
            container.remove(force=True)

    return run
