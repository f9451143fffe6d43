"""Write docs/reference from the code: ``python -m scripts.write_reference``.

The commands come from Typer, the keys of cluster.yaml from the config models, the exit codes from exit_codes.py
and errors.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from orchestrator import cli, config, errors, exit_codes

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
EXAMPLES = ROOT / "docs" / "examples" / "every-key.yaml"
MADE = "<!-- Made by `python -m scripts.write_reference`; a test compares this page with the code. -->\n"
COMMON = ("--cluster", "--config", "--json")
CLI = f"""# Commands

{MADE}
Type `orchestrator COMMAND`; `orchestrator COMMAND --help` prints the same texts as this page.
`orchestrator --install-completion` lets your shell complete commands and the names of nodes and runs.

- `--cluster NAME` chooses the cluster; default: the name in `cluster.yaml`, or `default`.
- `--config FILE` names the configuration file; default: `cluster.yaml` if there is one. `--config /dev/null` uses none.
- `--json` prints results as JSON on standard output.

Results go to standard output, progress to standard error. If that is not a terminal, progress is printed as plain
lines.

"""
KEYS = f"""# cluster.yaml

{MADE}
`orchestrator init` writes a commented `cluster.yaml` with every key. Only you can read the file, because it can hold
passwords. Commands read the `cluster.yaml` in the current directory. Flags override keys; keys that you leave out have
the defaults below. Without a file, a cluster keeps the settings of its last deploy until its teardown. An unknown
key is an error that names the nearest known one.

[every-key.yaml](../examples/every-key.yaml) is a valid file with the examples of all keys.

"""
CODES = f"""# Exit codes

{MADE}
| code | error | meaning |
|---|---|---|
| 0 | | done, or nothing to do |
"""
SCHEMA = config.Config.model_json_schema()
COLUMNS = ["key", "type", "default", "meaning", "example"]


def commands() -> Iterator[tuple[str, Any]]:
    """Yield (name, command) for every command: groups that do nothing by themselves are replaced by their members."""
    for name, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        if not inner or command.invoke_without_command:
            yield name, command
        yield from ((f"{name} {part}", member) for part, member in inner.items())


def command_page() -> str:
    """Return the text of docs/reference/cli.md."""
    listed = list(commands())
    without = {option: [f"`{name}`" for name, c in listed if not _has(c, option)] for option in COMMON}
    takes = "".join(f"All commands except {_and(names)} take `{option}`.\n" for option, names in without.items())
    overview = [[f"[{name}](#{name.replace(' ', '-')})", _first(c.help)] for name, c in listed]
    return (
        CLI + takes + "\n" + _table(["command", "what it does"], overview) + "".join(_command(*each) for each in listed)
    )


def key_page() -> str:
    """Return the text of docs/reference/cluster-yaml.md."""
    examples = yaml.safe_load(EXAMPLES.read_text())
    parts = [KEYS, "## The cluster\n\n"]
    rows: list[list[str]] = []
    items = ""
    for path, meaning, default in config.every_key():
        if config.is_section(path):
            parts += [_table(COLUMNS, rows), items, f"\n## {path}\n\n{meaning}\n\n"]
            rows, items = [], ""
        else:
            rows.append(_key(path, meaning, default, examples))
            items += _items(path)
    return "".join(parts) + _table(COLUMNS, rows) + items


def code_page() -> str:
    """Return the text of docs/reference/exit-codes.md."""
    rows = [(kind.exit_code, f"`{kind.__name__}`", _first(kind.__doc__)) for kind in _kinds(errors.OrchestratorError)]
    rows += [
        (2, "usage", "An option or argument that the command does not have."),
        (exit_codes.RERUN["within tolerance"], "`rerun`", "The repeated run is within the tolerance."),
        (exit_codes.RERUN["different"], "`rerun`", "The repeated run is different."),
        (exit_codes.BUG, "bug", "A bug: one line, and the path of a log with the traceback."),
        (exit_codes.INTERRUPTED, "", "Interrupted by Ctrl-C; `notebook`, `dashboard` and `top` then return 0."),
    ]
    return CODES + "".join(f"| {code} | {name} | {meaning} |\n" for code, name, meaning in sorted(rows))


def _has(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _command(name: str, command: Any) -> str:
    rows = [_option(parameter) for parameter in command.params if not set(COMMON) & set(parameter.opts)]
    table = "\n" + _table(["argument or option", "meaning"], rows) if rows else ""
    return f"\n## {name}\n\n{' '.join((command.help or '').split())}\n{table}"


def _option(parameter: Any) -> list[str]:
    words = parameter.opts + parameter.secondary_opts
    named = words[0].startswith("-")
    value = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar or 'VALUE'}"
    # A table cell cannot hold `A|B`: MkDocs shows the backslash that GitHub needs before the bar.
    positional = " or ".join(f"`{word}`" for word in (parameter.metavar or parameter.name.upper()).split("|"))
    shown = ", ".join(f"`{word}{value}`" for word in words) if named else positional
    return [shown, _with_default(parameter)]


def _with_default(parameter: Any) -> str:
    """Return the help of a parameter with the default that --help adds to it."""
    text, default = parameter.help or "", parameter.default
    if default in (None, False) or "default" in text:
        return text
    return f"{text.removesuffix('.')}; default: {getattr(default, 'value', default)}."


def _key(path: str, meaning: str, default: Any, examples: Any) -> list[str]:
    meaning, _, otherwise = meaning.partition("; default: ")
    value: Any = examples
    for part in path.split("."):
        value = value[part]
    shown = f"`{_flow(default)}`" if default is not None else otherwise or "-"
    return [f"`{path}`", _type(_node(path), value), shown, meaning, f"`{_flow(value)}`"]


def _items(path: str) -> str:
    """Return a table of the keys of a list's items; an empty text if the items have no keys."""
    properties = _resolved(_node(path).get("items", {})).get("properties", {})
    rows = [_item_key(name, node) for name, node in properties.items()]
    return f"\nKeys of each item of `{path}`:\n\n{_table(COLUMNS[:-1], rows)}" if rows else ""


def _item_key(name: str, node: Any) -> list[str]:
    meaning, _, otherwise = node["description"].partition("; default: ")
    default = node.get("default")
    shown = f"`{_flow(default)}`" if default is not None else otherwise or "-"
    return [f"`{name}`", _type(node), shown, meaning]


def _node(path: str) -> Any:
    """Return the JSON schema of a key."""
    node: Any = SCHEMA
    for part in path.split("."):
        node = _resolved(node)["properties"][part]
    return node


def _type(node: Any, example: Any = None) -> str:
    """Return the type of a key in words, from its JSON schema."""
    options = [_resolved(option) for option in node.get("anyOf", [node]) if option.get("type") != "null"]
    words = [_word(option, isinstance(example, str)) for option in options]
    return " or ".join(dict.fromkeys(words))


def _resolved(node: Any) -> Any:
    name = node.get("$ref", "").rpartition("/")[2]
    return SCHEMA["$defs"][name] if name else node


def _word(node: Any, text: bool) -> str:
    if "enum" in node:
        return " or ".join(f"`{word}`" for word in node["enum"])
    if node["type"] == "array":
        return "list"
    if node["type"] == "number" and text:
        return "duration"
    return {"path": "path", "ipv4network": "network"}.get(node.get("format", "")) or _bounded(node)


def _bounded(node: Any) -> str:
    least = node.get("minimum", node.get("exclusiveMinimum"))
    words = str({"object": "mapping", "string": "text"}.get(node["type"], node["type"]))
    if "maximum" in node:
        return f"{words}, {least} to {node['maximum']}"
    return words + ("" if least is None else f", {'at least' if 'minimum' in node else 'above'} {least}")


def _kinds(kind: type[errors.OrchestratorError]) -> Iterator[type[errors.OrchestratorError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _kinds(below)


def _first(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _and(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


PAGE = {"cli.md": command_page, "cluster-yaml.md": key_page, "exit-codes.md": code_page}

if __name__ == "__main__":
    for name, page in PAGE.items():
        (PAGES / name).write_text(page())
