"""Find Terraform, check its version, and run it without settings of the user's that change its behaviour."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from python_terraform import IsFlagged, Terraform

from orchestrator import process
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.state import StateDir

PROGRAMS = ("terraform", "tofu")
OLDEST = (1, 5)
# The user's settings that are passed on: the sources of providers. Any other could change the meaning of commands.
PASSED_VARIABLES = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_", "TF_TOKEN_", "TF_REGISTRY_")
_QUIET = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}


def program() -> str:
    """Return the path of Terraform, else of OpenTofu, on the PATH or in the directory of this Python.

    Raises PreflightError.
    """
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    paths = [path for path in (shutil.which(name, path=places) for name in PROGRAMS) if path]
    remedy = "https://developer.hashicorp.com/terraform/install or https://opentofu.org/docs/intro/install"
    if not paths:
        raise PreflightError("neither terraform nor tofu is on the PATH", f"install one: {remedy}")
    return paths[0]


def check_version() -> None:
    """Raise PreflightError if Terraform is missing, broken or too old."""
    path, oldest = program(), ".".join(map(str, OLDEST))
    try:
        answer = process.run("ask Terraform's version", [path, "version", "-json"], env=_environment())
        version = str(json.loads(answer)["terraform_version"])
    except (CommandFailed, ValueError, KeyError, TypeError) as error:
        raise PreflightError(
            f"{path} does not print its version: {error}", f"install {oldest} or newer there"
        ) from error
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise PreflightError(f"{path} is version {version}, {oldest} is needed", f"install {oldest} or newer")


def run(
    state_dir: StateDir, provider: str, command: str, on_line: Callable[[str], None] | None = None, **options: Any
) -> None:
    """Run a command of Terraform in the root, with output to the log.

    Args:
        state_dir: State directory of the cluster.
        provider: Name of the provider.
        command: Command of Terraform.
        on_line: Called with each line of output.
        **options: Options of the command.

    Raises:
        CommandFailed: Terraform failed.
    """
    process.run(
        f"terraform {command}",
        _argv(state_dir, provider, command, **options),
        state_dir.log("terraform"),
        cwd=root(state_dir, provider),
        env=_environment(),
        on_line=on_line,
    )


def answer(state_dir: StateDir, provider: str, command: str, **options: Any) -> str:
    """Run a command of Terraform that changes nothing.

    Args:
        state_dir: State directory of the cluster.
        provider: Name of the provider.
        command: Command of Terraform.
        **options: Options of the command.

    Returns:
        Its standard output.

    Raises:
        CommandFailed: Terraform failed.
    """
    argv = _argv(state_dir, provider, command, **options)
    return process.run(f"terraform {command}", argv, cwd=root(state_dir, provider), env=_environment())


def _argv(state_dir: StateDir, provider: str, command: str, **options: Any) -> list[str]:
    # The constructor reads the state and fails if it is damaged, so it gets the name of a file that does not exist.
    tool = Terraform(working_dir=str(root(state_dir, provider)), state="none", terraform_bin_path=program())
    argv: list[str] = tool.generate_cmd_string(command, **{"no_color": IsFlagged, **options})
    return argv


def _environment() -> dict[str, str | None]:
    foreign = [name for name in os.environ if name.startswith("TF_") and not name.startswith(PASSED_VARIABLES)]
    return {**dict.fromkeys(foreign), **_QUIET}


def root(state_dir: StateDir, provider: str) -> Path:
    """Return the directory of the provider's root."""
    return state_dir.terraform / provider
