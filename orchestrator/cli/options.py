"""Options shared by several commands, and the Config made of them and cluster.yaml."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import config, progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.runs import store
from orchestrator.schema.bounded_files import Unreadable, read_text, shown
from orchestrator.state import Record, StateDir


def _help(meaning: str, default: Any) -> str:
    shown = f"; default: {default}" if default is not None and not isinstance(default, bool) else ""
    return f"{meaning[:1].upper()}{meaning[1:]}{shown}."


HELP = {path: _help(meaning, default) for path, meaning, default in config.every_key()}
SETTINGS = {path.rpartition(".")[2]: path for path in HELP if path.startswith(("train.", "launch."))}


def key(path: str, *names: str, complete: Callable[[], list[str]] | None = None) -> Any:
    """Return an option that overrides the key ``path`` of cluster.yaml, with that key's description and default.

    Args:
        path: The key, with dots between its parts.
        names: The option's names; by default Typer derives one from the parameter.
        complete: Returns the words for shell completion.

    Returns:
        The Typer option.
    """
    return typer.Option(*names, help=HELP[path], autocompletion=completion(complete))


def settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of train and launch among the ``parameters`` of a command, with their values for :func:`load`."""
    return {SETTINGS[name]: value for name, value in parameters.items() if name in SETTINGS}


def completed(help_text: str, complete: Callable[[], list[str]]) -> Any:
    """Return an argument with shell completion."""
    return typer.Argument(help=help_text, autocompletion=completion(complete))


def completion(complete: Callable[[], list[str]] | None) -> Callable[[str], list[str]] | None:
    """Return the ``autocompletion`` of an option or argument, which selects from all words of ``complete``."""
    if complete is None:
        return None

    def words(incomplete: str) -> list[str]:
        with suppress(OrchestratorError):  # a shell can show words only, no error
            return [word for word in complete() if word.startswith(incomplete)]
        return []

    return words


def between(least: float, most: float) -> Callable[[Any, Any], Any]:
    """Return the ``callback`` of an option that refuses numbers outside of these; nan too, which Typer's min takes."""

    def checked(parameter: typer.CallbackParam, value: float | None) -> float | None:
        if value is None or least <= value <= most:
            return value
        raise ConfigError(
            [f"{parameter.opts[0]}: {value:.12g}: expected a number between {least:.12g} and {most:.12g}"]
        )

    return checked


def node_named(name: str, cluster: Cluster, where: str = "", hint: str = "") -> str:
    """Return the name of a node that the user named; `head` is the head of every cluster.

    Args:
        name: What the user wrote.
        cluster: The cluster.
        where: Start of the message, if there is no such node.
        hint: Remedy in that case.

    Returns:
        The node's own name.

    Raises:
        ConfigError: The cluster has no such node.
    """
    node = cluster.head if name == "head" else name
    if node not in cluster.nodes:
        near = config.nearest(name, list(cluster.nodes))
        raise ConfigError([f"{where}no node {shown(name)}{near} (nodes: {', '.join(cluster.nodes)})"], hint)
    return node


def node_names() -> list[str]:
    """List the nodes of the default cluster, for shell completion."""
    record = state.read(state_dir(None, None))
    return list(record.cluster.nodes) if record and record.cluster else []


def run_names() -> list[str]:
    """List the runs of the default cluster, for shell completion."""
    return [run.id for run in store.list_runs(state_dir(None, None))]


ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file; default: cluster.yaml, if it exists.")
]
Name = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Name of the cluster; default: the name in cluster.yaml, or `default`.",
        autocompletion=state.cluster_names,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


MOST_OF_PASSWORD = 4096  # bytes of the file
PASSWORD_VARIABLE = "ORCHESTRATOR_MONITORING_PASSWORD"  # noqa: S105
GrafanaPassword = Annotated[
    bool,
    typer.Option(
        "--grafana-password",
        help=f"Ask for Grafana's password; without this option ${PASSWORD_VARIABLE} is used, if it is set.",
    ),
]
GrafanaPasswordFile = Annotated[
    Path | None, typer.Option("--grafana-password-file", help="File whose first line is Grafana's password.")
]


def grafana_password(prompt: bool, file: Path | None) -> str | None:
    """Return the password from ``file``, else from a prompt if ``prompt``, else from the environment, else None.

    The variable is removed from the environment, so that no program started later sees it.

    Raises:
        ConfigError: The file cannot be read.
    """
    password = os.environ.pop(PASSWORD_VARIABLE, None) or None
    if file is None:
        question = "Grafana's password"
        return typer.prompt(question, hide_input=True, confirmation_prompt=True, err=True) if prompt else password
    try:
        return next(iter(read_text(file, MOST_OF_PASSWORD).splitlines()), "")
    except FileNotFoundError as error:
        raise ConfigError([f"--grafana-password-file: {file}: {error.strerror}"], "correct the path") from None
    except Unreadable as error:
        raise ConfigError([f"--grafana-password-file: {error}"], "name a file of one line") from None


def confirm(question: str, declined: str, yes: bool) -> None:
    """Ask ``question`` on standard error unless ``yes``; Ctrl-C interrupts the command.

    Args:
        question: What is asked.
        declined: What a no means, for the message.
        yes: Whether the user gave --yes.

    Raises:
        OrchestratorError: The answer is no, or standard input has none.
    """
    if not yes and not _agreed(question):
        raise OrchestratorError(f"{declined}: the answer to {question!r} was not yes", "--yes answers yes")


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise
        typer.echo(err=True)  # ends the line of the question
        return False


def load(path: Path | None, name: str | None, flags: Mapping[str, Any], whole: bool = True) -> Config:
    """Load cluster.yaml, else the deployed cluster's configuration, else the defaults; ``flags`` override each.

    Args:
        path: The configuration file; None for cluster.yaml if it exists.
        name: The cluster; None for the one that the file names.
        flags: Values by key, as in {"local.cpus": 2}; None for a flag that was not given.
        whole: As in config.load.

    Returns:
        The validated configuration.
    """
    file = chosen_file(path)
    base = {} if file else _deployed(config.DEFAULT_NAME if name is None else name)
    loaded = config.load(file, {"name": name, **flags}, base, whole)
    if file:
        _loaded.append((loaded, file, {key for key, value in flags.items() if value is not None}))
    return loaded


def note_defaults(loaded: Config, path: Path | None, keys: Iterable[str]) -> None:
    """Print which settings of the last deploy return to their defaults, because neither file nor flag sets them.

    Args:
        loaded: The configuration to deploy.
        path: As for :func:`load`.
        keys: Keys to compare, as in "local.cpus".
    """
    file = chosen_file(path)
    before, now = _deployed(loaded.name) if file else {}, loaded.model_dump(mode="json")
    for key in keys if before else ():
        old, new = _value(before, key), _value(now, key)
        if old != new and not config.is_set(loaded, key):
            was, default = json.dumps(old), json.dumps(new)
            progress.note(f"{key}: {was} becomes {default}, the default: set {key} in {file} to keep {was}")


def _value(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


_loaded: list[tuple[Config, Path, set[str]]] = []  # the configurations of this process, each with file and flags


def located(problem: str) -> str:
    """Prefix ``problem``, as ``key: what is wrong``, with the file that sets the key, if a file does."""
    key = problem.partition(":")[0]
    files = [file for loaded, file, flags in _loaded if key not in flags and config.is_set(loaded, key)]
    return f"{files[0]}: {problem}" if files else problem


def chosen_file(path: Path | None) -> Path | None:
    """Return the chosen configuration file, else cluster.yaml if it exists, even as a broken link."""
    return path or (config.FILE if os.path.lexists(config.FILE) else None)


def _deployed(name: str) -> dict[str, Any]:
    if not config.NAME.fullmatch(name):
        return {}
    record = state.read(state.for_cluster(name))
    return config.stored(record.config).model_dump(mode="json") if record else {}


def state_dir(path: Path | None, name: str | None) -> StateDir:
    """Return the state directory of the chosen cluster; of cluster.yaml only the name must be valid."""
    file = chosen_file(path) if name is None else None
    if file:
        name = config.name_in(file)
    if name is None:
        name = config.DEFAULT_NAME
    if not config.NAME.fullmatch(name):
        where = f"{file}: " if file else ""
        raise ConfigError([f"{where}name: {shown(name)} is not usable: {config.NAME_RULE}"])
    return state.for_cluster(name)


def deployed(path: Path | None, name: str | None) -> tuple[StateDir, Record, Cluster]:
    """Return state directory, record and nodes of the chosen cluster.

    Raises:
        StateError: It is not deployed.
    """
    home = state_dir(path, name)
    record, cluster = state.deployed(home)
    return home, record, cluster
