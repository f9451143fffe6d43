"""Commands that prepare data sets as shards, on all nodes together, and copy shards to every node's disk."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import chosen_cluster, data_tables, follow_run, help_pages, launch_options, options
from orchestrator.cli.launch_options import Controller, CycleTime, Detach, Interface, Np
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.runs.jobs import shards
from orchestrator.schema import Prepared, Staged

Dataset = Annotated[str | None, completed(HELP["train.dataset"], lambda: list(shards.DATASETS))]
Data = Annotated[Path | None, key("train.data")]
PREPARED = follow_run.show_file("prepared.json", Prepared, data_tables.prepared)
STAGED = follow_run.show_file("staged.json", Staged, data_tables.staged)


def register(app: typer.Typer) -> None:
    data = help_pages.Commands(
        help="Write a large data set as TFRecord shards, and copy these to every node.", no_args_is_help=True
    )
    data.command()(prepare)
    data.command()(stage)
    app.add_typer(data, name="data")


def prepare(
    dataset: Dataset = None,
    data: Data = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be decoded, and list them.")
    ] = False,
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    detach: Detach = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Write TFRecord shards of a data set; each rank writes a part. Run it again to continue, check or repair."""
    config = chosen_cluster.load_config(config_file, name, options.settings(locals()))
    state_dir, cluster, digest = launch_options.deployed_for_trainer(config)
    run = shards.prepare(state_dir, cluster, digest, config, skip_unreadable)
    follow_run.follow(state_dir, cluster, run, json, PREPARED, detach)


def stage(
    dataset: Dataset = None,
    data: Data = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    detach: Detach = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Copy the prepared shards (without --data all of them) from node to node, to every node's own disk."""
    config = chosen_cluster.load_config(config_file, name, options.settings(locals()))
    state_dir, cluster, digest = launch_options.deployed_for_trainer(config)
    run = shards.stage(state_dir, cluster, digest, config)
    follow_run.follow(state_dir, cluster, run, json, STAGED, detach)
