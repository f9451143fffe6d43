"""Start runs of users' scripts."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator import lock, progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, stored
from orchestrator.runs import control, package_overlays, packages, source_archive
from orchestrator.runs.jobs import trainer
from orchestrator.runs.launchers import choice
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.run_record import Run
from orchestrator.runs.script import Source, gather
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.state import StateDir

DIRECTORY = "src"  # of the script, in the run's directory


def start(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    argv: Sequence[str],
    config_file: Path | None = None,
    environment: UserEnvironment | None = None,
    requirements: Requirements | None = None,
) -> Run:
    """Start a user's command on every rank, and send the directory of its script.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch.
        argv: Command, as in "python my_script.py ...".
        config_file: Configuration file in use, which may hold passwords and is not sent.
        environment: Variables for the ranks; the files that have them are not sent.
        requirements: Packages that the command needs in addition to the image's.

    Returns:
        The run, started.

    Raises:
        ConfigError: There is no script, its directory is too large, ``argv`` names a file that is not sent, or packages
            conflict with the image.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    environment = environment or UserEnvironment()
    source = gather(argv, config_file, *environment.files)
    for name, reason in source.left_out.items():
        progress.note(f"not sent: {name}: {reason}")
    return start_source(state_dir, cluster, digest, config, source, environment, requirements)


def start_source(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    source: Source,
    environment: UserEnvironment,
    requirements: Requirements | None,
) -> Run:
    """Start the command of ``source`` on every rank; the rest is as for :func:`script`."""
    progress.note(f"sending {source}")
    options = choice.choose(config.launch, source)
    if requirements is None:
        choice.require_package(options.launcher, stored(state.deployed(state_dir)[0].config))
    overlay = packages.provide(state_dir, cluster, digest, options, requirements) if requirements else None
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    run = trainer.plan(state_dir, cluster, digest, options, "script", nodes)
    changes = {"command": source.command, "workdir": f"{run.directory}/{DIRECTORY}", "packages": overlay}
    run, copy = run.model_copy(update=changes), source_archive.packed(source)
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        package_overlays.require(head, overlay)
        files = {f"{DIRECTORY}/{name}": path for name, path in source.files.items()}
        control.start(state_dir, cluster, head, run, files, {}, environment.values)
    source_archive.keep(state_dir, run, copy)
    return run
