"""Command that runs a user's script on every rank."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator import progress, state
from orchestrator.cli import chosen_cluster, follow_run, launch_options, options, result_tables
from orchestrator.cli.launch_options import (
    Autotune,
    Controller,
    CycleTime,
    Detach,
    Env,
    EnvFile,
    Fusion,
    Interface,
    Np,
    RequirementsFile,
)
from orchestrator.cli.options import ConfigFile, Json, Name, key
from orchestrator.runs import requirements, script, unread_requirements, unsent_files, user_variables
from orchestrator.runs.jobs import scripts

Launcher = Annotated[str | None, key("launch.launcher", "--launcher")]
ParameterServers = Annotated[int | None, key("launch.parameter_servers", "--parameter-servers")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the files that would be sent, and start nothing.")]
Wheels = Annotated[
    Path | None,
    typer.Option("--wheels", help="Install only from the wheels in this directory."),
]
NoPackages = Annotated[bool, typer.Option("--no-packages", help="Install nothing: use only the packages of the image.")]
WITH_OPTIONS_OF_ITS_OWN = {"allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    app.command(name="run", context_settings=WITH_OPTIONS_OF_ITS_OWN)(run_script)


def run_script(
    command: Annotated[
        list[str], typer.Argument(help="The script and its arguments: python my_script.py --my-flag ...")
    ],
    launcher: Launcher = None,
    parameter_servers: ParameterServers = None,
    env: Env = None,
    env_file: EnvFile = None,
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    fusion_threshold: Fusion = None,
    autotune: Autotune = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    requirements_file: RequirementsFile = None,
    wheels: Wheels = None,
    no_packages: NoPackages = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Run a script of your own on every rank: `orchestrator run -- python my_script.py --my-flag`."""
    flags = options.settings(locals())
    environment = user_variables.read(env or [], env_file or [])
    secret = [*([config_file] if config_file else []), *environment.files]
    packages = None if no_packages else requirements.find(command, requirements_file, wheels, *secret)
    source = script.gather(command, *secret, wheels=wheels)
    progress.note(unsent_files.note_on_arguments(source))
    if packages is None and not no_packages:
        progress.note(unread_requirements.note(source.directory))
    config = chosen_cluster.load_config(config_file, name, flags)
    if dry_run:
        scripts.dry_run(state.for_cluster(config.name), config, source)
        return result_tables.source(source, json, packages)
    state_dir, cluster, digest = launch_options.deployed(config)
    for left_out, reason in source.left_out.items():
        progress.note(f"not sent: {left_out}: {reason}")
    run = scripts.start(state_dir, cluster, digest, config, source, environment, packages)
    follow_run.follow(state_dir, cluster, run, json, detach=detach)
