"""A command imports only its own module and the libraries that it uses: importing all takes half a second longer."""

import importlib
import subprocess
import sys
from typing import Any

import pytest
import typer

from orchestrator import cli, packaged_files

LIBRARIES = {"ansible_runner", "docker", "google", "keystoneauth1", "matplotlib", "openstack", "paramiko", "requests"}
IMPORTED = """
import sys
from orchestrator import cli
try:
    cli.main()
finally:
    print("\\n", *sys.modules)
"""


def imported(*arguments: str) -> set[str]:
    """Return the modules that a new process has imported at the end of a command."""
    command = [sys.executable, "-c", IMPORTED, *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["status"],
        ["predict", "resnet50", "--dataset", "imagenet", "--step-seconds", "1", "--link", "10gbit"],
    ],
    ids=" ".join,
)
def test_command_imports_no_unused_library(arguments: list[str]) -> None:
    assert imported(*arguments) & LIBRARIES == set()


@pytest.mark.parametrize(
    ("arguments", "module", "others"),
    [
        (["--version"], "report_errors", {"cli.training", "runs.control", "prediction"}),
        (["status"], "clusters", {"studies", "prediction.backtest", "reproduction"}),
        (
            ["predict", "resnet50", "--dataset", "imagenet", "--step-seconds", "1", "--link", "10gbit"],
            "prediction",
            {"studies", "reproduction"},
        ),
    ],
)
def test_command_imports_no_module_of_another_command(arguments: list[str], module: str, others: set[str]) -> None:
    modules = imported(*arguments)
    assert f"orchestrator.cli.{module}" in modules
    assert modules & {f"orchestrator.{other}" for other in others} == set()


@pytest.mark.parametrize("module", sorted(set(cli.MODULES.values())))
def test_module_registers_the_commands_of_the_table(module: str) -> None:
    commands = typer.Typer()
    importlib.import_module(f"orchestrator.cli.{module}").register(commands)
    group: Any = typer.main.get_group(commands)
    assert sorted(group.commands) == sorted(name for name, of in cli.MODULES.items() if of == module)


def test_every_module_that_registers_commands_is_in_the_table() -> None:
    sources = {
        path.stem for path in (packaged_files.PACKAGE / "cli").glob("*.py") if "\ndef register(" in path.read_text()
    }
    assert sources == set(cli.MODULES.values())
