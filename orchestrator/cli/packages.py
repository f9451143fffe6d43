"""Commands that list and remove the Python packages that `run` installed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from orchestrator.cli import chosen_cluster, help_pages, output
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.errors import ConfigError
from orchestrator.runs import control, package_overlays, store

MOST_SHOWN = 5  # lines of a requirements file in the table
Digest = Annotated[str | None, typer.Argument(metavar="HASH", help="Hash of the packages, or its first characters.")]
All = Annotated[bool, typer.Option("--all", help="Remove all packages.")]


def register(app: typer.Typer) -> None:
    packages = help_pages.Commands(invoke_without_command=True)
    packages.callback()(list_packages)
    packages.command(name="remove")(remove)
    app.add_typer(packages, name="packages")


def list_packages(
    context: typer.Context, config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """List the Python packages that `run` installed on the cluster."""
    if context.invoked_subcommand:
        return None
    state_dir, _, cluster = chosen_cluster.deployed(config_file, name)
    with control.head_session(state_dir, cluster) as head:
        existing = package_overlays.list_overlays(head)
    recorded = store.list_runs(state_dir)
    used = {installed.hash: package_overlays.last_used(recorded, installed) for installed in existing}
    if json:
        return output.as_json([{**installed.model_dump(), "last_used": used[installed.hash]} for installed in existing])
    rows = [
        (installed.hash, installed.source, _listed(installed.asked), len(installed.packages),
         f"{installed.bytes / 1e6:,.1f} MB", _time(installed.made), _time(used[installed.hash]))
        for installed in existing
    ]  # fmt: skip
    output.table(("hash", "file", "asked for", "installed", "size", "made", "last used"), rows)


def remove(
    context: typer.Context,
    digest: Digest = None,
    everything: All = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Remove packages that `run` installed, except those that a run in progress uses."""
    if everything == (digest is not None):
        raise ConfigError(["packages remove: name a hash, or --all"])
    before = context.parent.params if context.parent else {}  # options between `packages` and `remove`
    state_dir, _, cluster = chosen_cluster.deployed(
        config_file or before.get("config_file"), name or before.get("name")
    )
    with control.head_session(state_dir, cluster) as head:
        removed = package_overlays.remove(state_dir, head, digest)
    if json or before.get("json"):
        return output.as_json([overlay.hash for overlay in removed])
    for overlay in removed:
        output.line(f"removed {overlay.hash}, {overlay.bytes / 1e6:,.1f} MB, of {overlay.source}")


def _listed(lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - MOST_SHOWN} more"] if len(lines) > MOST_SHOWN else []
    return ", ".join([*lines[:MOST_SHOWN], *more])


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
