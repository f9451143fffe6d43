"""Command that copies files between this machine and a node."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import progress
from orchestrator.cli import chosen_cluster, output
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError
from orchestrator.ssh.copying.copy_progress import Progress
from orchestrator.ssh.copying.download import download
from orchestrator.ssh.copying.upload import upload


def register(app: typer.Typer) -> None:
    app.command()(cp)


def cp(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="A file or directory on this machine, or NODE:PATH on a node.")
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="A path on this machine, or NODE:PATH. If it is a directory or ends in /, SRC is copied into it.",
        ),
    ],
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Copy files to or from a node: `orchestrator cp data head:/shared/`. Run it again to continue a copy."""
    _require_paths(source, target)
    state_dir, _, cluster = chosen_cluster.deployed(config_file, name)
    source_node, source_path = _split_location(source, cluster)
    target_node, target_path = _split_location(target, cluster)
    if (source_node is None) == (target_node is None):
        _refuse(source, target, source_node is None)
    copying = Progress()
    try:
        with progress.step(f"Copying {source} to {target}") as step:
            copying.detail = step.detail
            if target_node:
                copied = upload(state_dir, cluster, Path(source_path), target_node, target_path, copying)
            else:
                copied = download(state_dir, cluster, source_node or "", source_path, target_path, copying)
    except KeyboardInterrupt:
        progress.note(copying.kept())
        raise
    for path, reason in copied.left_out.items():
        progress.note(f"not copied: {path}: {reason}")
    if json:
        return output.as_json(asdict(copied))
    same = f", {copied.same} of them unchanged" if copied.same else ""
    output.line(
        f"{copied.files} file{'s' if copied.files != 1 else ''}, {copied.bytes:,} bytes in {copied.target}{same}"
    )


def _require_paths(source: str, target: str) -> None:
    """Raise ConfigError for an empty path, which would mean the whole working directory."""
    if not (source and target):
        raise ConfigError(
            [f"cp: the path {'SRC' if not source else 'DST'} is empty"],
            "check the variable that it comes from; write the working directory as .",
        )


def _refuse(source: str, target: str, local: bool) -> None:
    if local:
        raise ConfigError(
            [f"cp: {source} and {target} are both on this machine"],
            "write the node's as NODE:PATH, as in head:/shared/",
        )
    remedy = "copy it to this machine first; or use /shared, which all nodes share"
    raise ConfigError([f"cp: {source} and {target} are both on nodes"], remedy)


def _split_location(text: str, cluster: Cluster) -> tuple[str | None, str]:
    """Return node and path of NODE:PATH, or None and a path here. Raises ConfigError."""
    name, colon, path = text.partition(":")
    if not colon or "/" in name:
        return None, text
    hint = f"write a file on this machine as ./{text}" if os.path.lexists(text) else ""
    node = chosen_cluster.node_named(name, cluster, "cp: ", hint)
    return node, _remote_path(path, text)


def _remote_path(path: str, text: str) -> str:
    """Return a path on a node that is absolute or begins with a dot. Raises ConfigError for `~USER`."""
    home, below = path.partition("/")[::2]
    if home == "~":
        return f"./{below.lstrip('/') or '.'}"
    if home.startswith("~"):
        node = text.removesuffix(path)
        hint = f"write the whole path, as in {node}/home/{path[1:]}; or {node}./{path} for a file of that name"
        raise ConfigError([f"cp: {text}: {home} is not known: only ~ itself names a home directory"], hint)
    return path if path.startswith("/") else f"./{path or '.'}"
