"""Launch a run: check the nodes, describe the run, send its files, start its unit."""

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import node_health as health_checks
from orchestrator import progress
from orchestrator.cluster import Cluster, hosts
from orchestrator.config import Launch
from orchestrator.errors import command
from orchestrator.runs import launchers, provenance, run_record, store, user_variables
from orchestrator.runs.control import systemd_units
from orchestrator.runs.run_record import Run
from orchestrator.schema import Hardware
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir

LOOPBACK = "lo"
GLOO = "gloo"  # every build of Horovod has it, and it waits without keeping a core busy


@dataclass(frozen=True)
class NodeResources:
    """Resources of healthy nodes: the network ``interface`` that connects them, and ``memory`` in bytes per rank."""

    interface: str
    memory: int
    hardware: dict[str, Hardware] = field(default_factory=dict)


def check_nodes(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch) -> NodeResources:
    """Check that every node is healthy and free.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options; ``np`` selects the nodes with ranks.

    Returns:
        Interface, and memory per rank, of the nodes with ranks.

    Raises:
        NodesFailed: A node does not answer or is not healthy.
        StateError: A run is active, or the nodes' interfaces have different names.
        ConfigError: A node lacks the network interface in ``options``, or the cluster has fewer slots than ``np``.
    """
    used = hosts(cluster, options.np)
    with progress.step("Checking nodes"):
        health = health_checks.health(state_dir, cluster, digest)
        health_checks.require_idle(health, cluster)
        health_checks.require_healthy(health, cluster)
        every = list(dict.fromkeys([cluster.head, *used]))  # the head launches, even without ranks
        interface = health_checks.common_interface(health, options.network_interface, every)
    memory = min(health.reports[name].memory // cluster.nodes[name].slots for name in used)
    # Horovod uses only loopback if all ranks are on the head.
    hardware = {name: report.hardware for name, report in health.reports.items() if report.hardware}
    return NodeResources(LOOPBACK if used == [cluster.head] else interface, memory, hardware)


def plan(cluster: Cluster, options: Launch, kind: str, nodes: NodeResources) -> Run:
    """Describe a run that can start now.

    Args:
        cluster: Deployed cluster.
        options: Launch options; the controller "auto" becomes Gloo.
        kind: First part of the run's id.
        nodes: Resources of the nodes with ranks.

    Returns:
        The run, without a command.
    """
    started = time.time()
    identity = f"{kind}-{datetime.fromtimestamp(started):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Run(
        id=identity,
        kind=kind,
        command=[],
        workdir=run_record.directory(identity),
        np=options.np or cluster.slots,
        controller=GLOO if options.controller == "auto" else options.controller,
        interface=nodes.interface,
        cycle_time=options.cycle_time,
        fusion_threshold=options.fusion_threshold,
        autotune=bool(options.autotune),
        threads=run_record.threads(cluster),
        memory=nodes.memory,
        started=started,
        hardware=nodes.hardware,
    )


def start(
    state_dir: StateDir,
    cluster: Cluster,
    head: Session,
    run: Run,
    files: Mapping[str, Path],
    texts: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Send files to the run's directory and start its unit; a run with a queue is started by that.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        head: Session on the head.
        run: Run with a command.
        files: Local files and directories without content, by name in the run's directory.
        texts: Contents of further files, by name in the run's directory.
        environment: Variables that the user sets for the ranks; they may hold passwords.

    Raises:
        StateError: Another run started first.
        CommandFailed: The head cannot start the unit.
    """
    with progress.step(f"Starting {run.id}"):
        with _removed_if_it_fails(state_dir, head, run):
            directories = [f"{run.directory}/ranks", f"{run.directory}/output", run.workdir]
            head.must("make the run's directory", ["mkdir", "-p", *directories])
            _send(head, run, files, {**texts, **launchers.files(cluster, run)})
            units = systemd_units.listed(head)
            health_checks.require_free(systemd_units.active(head, units), cluster)
            provenance.record(state_dir, cluster, run, files, environment or {})
            if run.queue:
                return
            store.save(state_dir, run)
            user_variables.send(head, run, environment or {})
        with _noted_if_interrupted(cluster, run):
            other = systemd_units.start(head, cluster, run, units)
        if other:
            _remove(state_dir, head, run)
            health_checks.require_free([other], cluster)


def _send(head: Session, run: Run, files: Mapping[str, Path], texts: Mapping[str, str]) -> None:
    with TemporaryDirectory() as temporary:
        written = {name: Path(temporary) / name for name in texts}
        for name, path in written.items():
            path.write_text(texts[name])
        head.send({**files, **written}, run.directory)


def _remove(state_dir: StateDir, head: Session, run: Run) -> None:
    store.remove(state_dir, run.id)
    head.run(["rm", "-rf", run.directory])


@contextmanager
def _removed_if_it_fails(state_dir: StateDir, head: Session, run: Run) -> Iterator[None]:
    """Remove the files of a run that cannot be sent as a whole: no command would list or remove them."""
    try:
        yield
    except BaseException:
        with suppress(Unreachable):
            _remove(state_dir, head, run)
        raise


@contextmanager
def _noted_if_interrupted(cluster: Cluster, run: Run) -> Iterator[None]:
    """Say that the run may have started if its start is interrupted."""
    try:
        yield
    except (KeyboardInterrupt, Unreachable):
        progress.note(f"run {run.id} may have started: {command(f'stop {run.id}', cluster.name)} ends it")
        raise
