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


def commands(group: Any) -> dict[str, set[str]]:
    """The options of every command, by the first word of its name."""
    inner = {name: getattr(command, "commands", {"": command}) for name, command in group.commands.items()}
    return {name: {o for c in of.values() for p in c.params for o in p.opts} for name, of in inner.items()}


def test_the_commands_without_the_usual_options_are_those_that_the_readme_names() -> None:
    options = commands(typer.main.get_command(cli.app))
    for option in ("--cluster NAME", "--config FILE", "--json"):
        [names] = re.findall(rf"Every command but ([^.]*?)\s+takes [^.]*`{option}`", README.replace("cluster.yaml", ""))
        without = {name for name, has in options.items() if option.split()[0] not in has}
        assert set(re.findall(r"`(\w+)`", names)) == without, option


def test_every_target_of_the_makefile_that_is_named_is_there() -> None:
    makefile = (assets.PACKAGE.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z0-9-]+)", README)) | set(
        re.findall(r"^    make ([a-z0-9-]+)", README, re.MULTILINE)
    )
    assert {"demo", "test", "check", "slow", "bench", "install"} <= named
    assert named <= targets
