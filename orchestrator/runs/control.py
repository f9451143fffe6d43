"""Launch, follow, stop and collect runs. A run belongs to the head; the control side only records it."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import health as health_checks
from orchestrator import progress, ssh
from orchestrator.cluster import PYTHON, Cluster, hosts
from orchestrator.config import Launch
from orchestrator.errors import CommandFailed, NodesFailed, command
from orchestrator.runs import fetch, launch, launchers, store, user_environment
from orchestrator.runs import log as runs_log
from orchestrator.runs.launch import Run
from orchestrator.schema import KILLED, Failure, RunStatus
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir

LOOPBACK = "lo"
ADDRESS = re.compile(r"\d+(?:\.\d+){3}")
GLOO = "gloo"  # every build of Horovod has it, and it waits without keeping a core busy
RECONNECTIONS, RECONNECT_SECONDS = 4, 0.5


@dataclass(frozen=True)
class RunState:
    """A run and its current state.

    The state is "running", "finished", "failed", "stopped", "lost" (the head went down during the run) or "unknown"
    (the head does not answer).
    """

    run: Run
    state: str
    status: RunStatus | None


@contextmanager
def head_session(state_dir: StateDir, cluster: Cluster) -> Iterator[Session]:
    """Open a session on the head. Raises NodesFailed if the head does not answer, or stops answering."""
    try:
        with ssh.connect(state_dir, cluster, cluster.head) as session:
            yield session
    except Unreachable as error:
        status, deploy = command("status", cluster.name), command("deploy", cluster.name)
        hint = f"{status} shows every node, {deploy} repairs them"
        raise NodesFailed("the head does not answer", {cluster.head: str(error)}, hint) from error


@dataclass(frozen=True)
class NodeResources:
    """Resources of healthy nodes: the network ``interface`` that connects them, and ``memory`` in bytes per rank."""

    interface: str
    memory: int


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
    memory = min(health.facts[name].memory // cluster.nodes[name].slots for name in used)
    # Horovod uses only loopback if all ranks are on the head.
    return NodeResources(LOOPBACK if used == [cluster.head] else interface, memory)


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
        workdir=launch.directory(identity),
        np=options.np or cluster.slots,
        controller=GLOO if options.controller == "auto" else options.controller,
        interface=nodes.interface,
        cycle_time=options.cycle_time,
        fusion_threshold=options.fusion_threshold,
        autotune=bool(options.autotune),
        threads=launch.threads(cluster),
        memory=nodes.memory,
        started=started,
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
    """Send files to the run's directory and start its unit.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        head: Session on the head.
        run: Run with a command.
        files: Local files, by name in the run's directory.
        texts: Contents of further files, by name in the run's directory.
        environment: Variables that the user sets for the ranks; they may hold passwords.

    Raises:
        StateError: Another run started first.
        CommandFailed: The head cannot start the unit.
    """
    with progress.step(f"Starting {run.id}"):
        wanted = [f"{run.directory}/ranks", f"{run.directory}/output", run.workdir]
        head.must("make the run's directory", ["mkdir", "-p", *wanted])
        with TemporaryDirectory() as temporary:
            written = {}
            for name, text in {**texts, **launchers.files(cluster, run)}.items():
                written[name] = Path(temporary) / name
                written[name].write_text(text)
            head.send({**files, **written}, run.directory)
        health_checks.require_free(active(head), cluster)
        store.save(state_dir, run)
        user_environment.send(head, run, environment or {})
        head.must("start the run", launch.unit_command(cluster, run))


def active(head: Session) -> list[str]:
    """Return the ids of runs that have a unit on the head."""
    states = "--state=activating,active,deactivating"
    listing = ["sudo", "systemctl", "list-units", "--no-legend", "--plain", states, f"{launch.UNIT}*.service"]
    units = [line.split()[0] for line in head.must("list runs", listing).splitlines()]
    runs = [unit.removeprefix(launch.UNIT).removesuffix(".service") for unit in units]
    return fetch.run_ids(runs, head)


def watch(state_dir: StateDir, cluster: Cluster, run: Run) -> Iterator[bytes]:
    """Follow the run's log from its first byte until the run ends, and reconnect if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Started run.

    Yields:
        Pieces of the log.

    Raises:
        NodesFailed: Several connections in a row failed.
    """
    position, failures = 0, 0
    while True:
        try:
            with head_session(state_dir, cluster) as head:
                for piece in _follow(head, run, position):
                    position, failures = position + len(piece), 0
                    yield piece
                if get_state(state_dir, head, run).state != "running":
                    return
        except NodesFailed:
            failures += 1
            if failures == RECONNECTIONS:
                raise
        time.sleep(RECONNECT_SECONDS)


def _follow(head: Session, run: Run, position: int) -> Iterator[bytes]:
    show = ["sudo", "systemctl", "show", "--property", "MainPID", "--value", run.unit]
    pid = head.must("find the run", show).strip()
    live = [] if pid in ("", "0") else ["--follow=name", "--retry", f"--pid={pid}", "--sleep-interval=0.2"]
    return head.follow(["tail", "--quiet", f"--bytes=+{position + 1}", *live, f"{run.directory}/log"])


def log(head: Session, run: Run) -> Iterator[bytes]:
    """Read the run's log as it is now."""
    return head.follow(["cat", f"{run.directory}/log"])


def get_state(state_dir: StateDir, head: Session, run: Run) -> RunState:
    """Get the state of ``run``; ask the head only if the run is not known to have ended.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head.
        run: Run in any state.

    Returns:
        The run with its state.

    Raises:
        ContractError: The head's status.json is not valid.
    """
    status = store.status(state_dir, run)
    if status:
        return RunState(run, status.state, status)
    running = run.id in active(head)
    answer = head.run(["cat", f"{run.directory}/status.json"])  # asked after the unit, which writes it before it ends
    if answer.exit_code == 0:
        reported = ssh.parsed(RunStatus, answer.output, head, f"{run.directory}/status.json")
        return RunState(run, reported.state, reported)
    return RunState(run, "running" if running else "lost", None)


def describe(failure: Failure, cluster: Cluster) -> str:
    """Describe the cause of a failed run: the rank, its node and its last lines."""
    node = cluster.named(failure.host)
    tail = "".join(f"\n    {line}" for line in runs_log.without_chatter(failure.lines))
    if failure.reason == "host":
        return f"node {node} stopped answering"
    if failure.reason == "start":
        return f"its start took too long: {ADDRESS.sub(lambda found: cluster.named(found[0]), ' '.join(failure.lines))}"
    if failure.reason == "launcher":
        return f"the launcher on {node} failed before any rank did:{tail}"
    killed = " (killed: out of memory?)" if failure.exit_code == KILLED else ""
    how = "raised an error" if failure.exit_code is None else f"ended with exit code {failure.exit_code}{killed}"
    return f"rank {failure.rank} on {node} {how}:{tail}"


def overview(state_dir: StateDir, cluster: Cluster | None, chosen: Sequence[Run] | None = None) -> list[RunState]:
    """Get the state of runs; ask the head only about runs that are not known to have ended.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster; without it, runs without a fetched status are "lost".
        chosen: Runs to report; default: all recorded runs.

    Returns:
        The runs with their states, in the same order; "unknown" if the head does not answer.
    """
    recorded = {
        run.id: (run, store.status(state_dir, run))
        for run in (store.list_runs(state_dir) if chosen is None else chosen)
    }
    otherwise = "unknown" if cluster else "lost"
    states = {
        name: RunState(run, status.state if status else otherwise, status) for name, (run, status) in recorded.items()
    }
    open_runs = [s.run for s in states.values() if s.status is None]
    if cluster and open_runs:
        with suppress(NodesFailed), head_session(state_dir, cluster) as head:
            states |= {run.id: get_state(state_dir, head, run) for run in open_runs}
    return list(states.values())


def remove_environments(state_dir: StateDir, cluster: Cluster) -> None:
    """Remove the variables that users set for runs whose head died. A head that does not answer is no error."""
    open_runs = [run for run in store.list_runs(state_dir) if not store.is_collected(state_dir, run)]
    if open_runs:
        with suppress(NodesFailed), head_session(state_dir, cluster) as head:
            user_environment.remove(head, open_runs)


def stop(head: Session, run: Run) -> None:
    """Stop the run's unit, which ends its processes on every node."""
    argv = ["sudo", "systemctl", "stop", run.unit]
    answer = head.run(argv, timeout=launch.STOP_SECONDS + 30.0)
    if answer.exit_code and "not loaded" not in answer.errors:
        raise CommandFailed("stop the run", argv, answer.exit_code, [answer.errors.strip()])


def sweep(state_dir: StateDir, cluster: Cluster, run: Run) -> None:
    """End the processes that a run left on the nodes.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run whose unit has ended.

    Raises:
        NodesFailed: A node does not answer.
    """

    def end(name: str) -> None:
        with ssh.connect(state_dir, cluster, name) as session:
            session.run([PYTHON, "-m", "orchestrator.trainer.supervision.processes", run.id])

    _, reasons = ssh.on_every_node(cluster, end)
    if reasons:
        again = command(f"stop {run.id}", cluster.name)
        raise NodesFailed("processes of the run may be left on", reasons, f"{again} once they answer")
