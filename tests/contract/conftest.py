"""The real tools that contracts are kept with."""

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

IMAGE_SECONDS = 1800  # for whatever runs inside the node image
PYTHON = "/opt/orchestrator/bin/python"


@dataclass(frozen=True)
class Said:
    """What a program gave: its exit code and all it wrote."""

    code: int
    text: str


class Root:
    """A Terraform root in a directory of its own, to plan and apply as often as a test likes."""

    def __init__(self, terraform: str, directory: Path) -> None:
        self.terraform, self.directory = terraform, directory

    def run(self, *argv: str) -> Said:
        finished = subprocess.run(
            [self.terraform, *argv],
            cwd=self.directory,
            env={**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"},
            capture_output=True,  # and only standard output is read: warnings come on the other one
            text=True,
            check=False,
        )
        return Said(finished.returncode, finished.stdout)

    def json(self, *argv: str) -> Any:
        result = self.run(*argv)
        assert result.code == 0, result.text
        return json.loads(result.text)

    def given(self, variables: Mapping[str, Any]) -> None:
        (self.directory / "terraform.tfvars.json").write_text(json.dumps(variables))

    def problems(self, variables: Mapping[str, Any]) -> list[str]:
        """What a plan with these variables refuses, one sentence each."""
        self.given(variables)
        lines = (json.loads(line) for line in self.run("plan", "-input=false", "-json").text.splitlines())
        diagnostics = [line["diagnostic"] for line in lines if line.get("type") == "diagnostic"]
        return [d["detail"].splitlines()[0] for d in diagnostics if d["severity"] == "error"]


@pytest.fixture
def root(terraform: str, tmp_path: Path) -> Callable[[str], Root]:
    """A copy of terraform/<name>, beside a copy of the contract, initialised."""

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
def ansible() -> Callable[..., Said]:
    """Runs a program of Ansible, installed beside our Python, in the directory of the playbooks."""

    def run(program: str, *argv: str) -> Said:
        finished = subprocess.run(
            [Path(sys.executable).with_name(program), *argv],
            cwd=packaged_files.directory("ansible"),
            env={**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Said(finished.returncode, finished.stdout)

    return run


@pytest.fixture(scope="session")
def in_image(docker_engine: Engine, node_image: str) -> Callable[..., Said]:
    """Runs a program inside a container of the node image, without network, and removes the container."""

    def run(argv: Sequence[str], mounts: Mapping[Path, str] | None = None, **environment: str) -> Said:
        volumes = {str(path): {"bind": target, "mode": "ro"} for path, target in (mounts or {}).items()}
        container = docker_engine.client.containers.run(
            node_image,
            list(argv[1:]),
            entrypoint=[argv[0]],
            environment=environment,
            volumes=volumes,
            network_mode="none",
            hostname="localhost",  # Gloo needs its own name to resolve
            detach=True,
        )
        try:
            code = container.wait(timeout=IMAGE_SECONDS)["StatusCode"]
            return Said(code, container.logs().decode(errors="replace"))
        finally:
            container.remove(force=True)

    return run
