"""The README tells the truth about commands and keys."""

import re
from typing import Any

import typer
import yaml

from orchestrator import assets, cli, config

README = (assets.PACKAGE.parent / "README.md").read_text()


def row(path: str, meaning: str, default: Any) -> str:
    """The line of the table of keys."""
    meaning, _, otherwise = meaning.partition("; default: ")
    shown = f"`{yaml.safe_dump(default).splitlines()[0]}`" if default is not None else otherwise or "-"
    return f"| `{path}` | {meaning} | {shown} |"


def test_every_key_of_cluster_yaml_is_in_the_readme_with_its_meaning_and_default() -> None:
    keys = [key for key in config.every_key() if not config.is_section(key[0])]
    assert len(keys) > 20
    assert [row(*key) for key in keys if row(*key) not in README] == []


def test_every_command_is_in_the_readme_and_no_other() -> None:
    group = typer.main.get_command(cli.app)
    table = README[README.index("| command |") :]
    assert set(re.findall(r"^\| `orchestrator (\w+)", table, re.MULTILINE)) == set(group.commands)  # type: ignore[attr-defined]


def test_every_target_of_the_makefile_that_is_named_is_there() -> None:
    makefile = (assets.PACKAGE.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z0-9-]+)", README)) | set(
        re.findall(r"^    make ([a-z0-9-]+)", README, re.MULTILINE)
    )
    assert {"demo", "test", "check", "slow", "bench", "install"} <= named
    assert named <= targets
