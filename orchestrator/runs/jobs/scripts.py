"""Start runs of users' scripts."""

from orchestrator import progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, stored
from orchestrator.runs import control, engines, launchers, package_overlays, packages, source_archive
from orchestrator.runs.jobs import trainer
from orchestrator.runs.launchers import choose_launcher, gpu_notes, lone_ranks
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.run_record import SCRIPT, Run
from orchestrator.runs.script import Source
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.state import StateDir, cluster_lock

DIRECTORY = "src"  # of the script, in the run's directory


def dry_run(state_dir: StateDir, config: Config, source: Source) -> None:
    """Choose the launcher as :func:`start` does and, if the cluster is deployed, note what it would note on ranks.

    Raises:
        ConfigError: The options do not fit the launcher or the deployed cluster.
    """
    options, record = choose_launcher.choose(config.launch, source), state.read(state_dir)
    if record and record.cluster:
        run = control.plan(record.cluster, options, SCRIPT, control.NodeResources("", 0))
        _note_ranks(record.cluster, source, run.model_copy(update=engines.of_run(options)))


def start(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    source: Source,
    environment: UserEnvironment,
    requirements: Requirements | None,
) -> Run:
    """Start a user's command on every rank, and send the files of its script's directory.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch.
        source: Script with its command and files.
        environment: Variables for the ranks.
        requirements: Packages that the command needs in addition to the image's.

    Returns:
        The run, started.

    Raises:
        ConfigError: Packages conflict with the image.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    progress.note(f"sending {source}")
    options = choose_launcher.choose(config.launch, source)
    if requirements is None:
        choose_launcher.require_package(options.launcher, stored(state.deployed(state_dir)[0].config))
    overlay = packages.provide(state_dir, cluster, digest, options, requirements) if requirements else None
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    run = trainer.plan(state_dir, cluster, digest, options, SCRIPT, nodes)
    changes = {"command": source.command, "workdir": f"{run.directory}/{DIRECTORY}", "packages": overlay}
    run, copy = run.model_copy(update=changes), source_archive.packed(source)
    _note_ranks(cluster, source, run)
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        package_overlays.require(head, overlay)
        files = {f"{DIRECTORY}/{name}": path for name, path in {**source.files, **source.directories}.items()}
        source_archive.keep(state_dir, run, copy)
        control.start(state_dir, cluster, head, run, files, {}, environment.values)
    return run


def _note_ranks(cluster: Cluster, source: Source, run: Run) -> None:
    layout = launchers.layout(cluster, run)
    for note in (*lone_ranks.notes(source, run, layout), *gpu_notes.notes(cluster, run, layout)):
        progress.note(note)
