"""Runs: launched on the head, followed, stopped, collected. A run belongs to the head; this side only remembers it."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import checks, fetching, launch, progress, records, runlog, ssh
from orchestrator.cluster import PYTHON, Cluster, hosts
from orchestrator.config import Launch
from orchestrator.errors import CommandFailed, NodesFailed, command
from orchestrator.launch import Run
from orchestrator.schema import Failure, RunStatus
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import Home

KILLED = 128 + 9
LOOPBACK = "lo"
ADDRESS = re.compile(r"\d+(?:\.\d+){3}")
GLOO = "gloo"  # which every build of Horovod has, and which waits without keeping a core busy
RECONNECTIONS, RECONNECT_SECONDS = 4, 0.5


@dataclass(frozen=True)
class Seen:
    """A run as it stands now.

    "running", "finished", "failed", "stopped", "lost" (its head went down with it) or "unknown" (no answer).
    """

    run: Run
    state: str
    status: RunStatus | None


@contextmanager
def head_session(place: Home, cluster: Cluster) -> Iterator[Session]:
    """A session on the head. Raises NodesFailed where it does not answer, or stops answering."""
    try:
        with ssh.connect(place, cluster, cluster.head) as session:
            yield session
    except Unreachable as error:
        status, deploy = command("status", cluster.name), command("deploy", cluster.name)
        hint = f"{status} shows every node, {deploy} heals them"
        raise NodesFailed("the head does not answer", {cluster.head: str(error)}, hint) from error


@dataclass(frozen=True)
class Ready:
    """What healthy nodes offer a run: the ``interface`` that they reach each other by, ``memory`` in bytes per rank."""

    interface: str
    memory: int


def ready(place: Home, cluster: Cluster, digest: str, options: Launch) -> Ready:
    """The nodes, each of them healthy and free. Raises NodesFailed, StateError, ConfigError."""
    used = hosts(cluster, options.np)
    with progress.step("Checking nodes"):
        health = checks.health(place, cluster, digest)
        checks.require_idle(health, cluster)
        checks.require_healthy(health, cluster)
        every = list(dict.fromkeys([cluster.head, *used]))  # which launches, whether or not it has ranks itself
        interface = checks.common_interface(health, options.network_interface, every)
    memory = min(health.facts[name].memory // cluster.nodes[name].slots for name in used)
    # Horovod looks for no other where all ranks are on the head.
    return Ready(LOOPBACK if used == [cluster.head] else interface, memory)


def plan(cluster: Cluster, options: Launch, kind: str, nodes: Ready) -> Run:
    """A run that could start now on these ``nodes``."""
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
    place: Home, cluster: Cluster, head: Session, run: Run, files: Mapping[str, Path], texts: Mapping[str, str]
) -> None:
    """Send ``files`` and ``texts`` (name in the run's directory -> local file, content) and start the run's unit.

    Raises StateError where another run was quicker.
    """
    with progress.step(f"Starting {run.id}"):
        wanted = [f"{run.directory}/ranks", f"{run.directory}/output", run.workdir]
        head.must("make the run's directory", ["mkdir", "-p", *wanted])
        with TemporaryDirectory() as temporary:
            written = {}
            for name, text in {**texts, **launch.files(cluster, run)}.items():
                written[name] = Path(temporary) / name
                written[name].write_text(text)
            head.send({**files, **written}, run.directory)
        checks.require_free(active(head), cluster)
        records.remember(place, run)
        head.must("start the run", launch.unit_command(cluster, run))


def active(head: Session) -> list[str]:
    """Ids of the runs that have a unit on the head."""
    states = "--state=activating,active,deactivating"
    listing = ["sudo", "systemctl", "list-units", "--no-legend", "--plain", states, f"{launch.UNIT}*.service"]
    units = [line.split()[0] for line in head.must("list runs", listing).splitlines()]
    found = [unit.removeprefix(launch.UNIT).removesuffix(".service") for unit in units]
    return fetching.run_ids(found, head)


def watch(place: Home, cluster: Cluster, run: Run) -> Iterator[bytes]:
    """The run's log in pieces from its first byte until the run ends; a connection that breaks is made anew.

    Raises NodesFailed where that fails several times in a row.
    """
    seen, failures = 0, 0
    while True:
        try:
            with head_session(place, cluster) as head:
                for piece in _follow(head, run, seen):
                    seen, failures = seen + len(piece), 0
                    yield piece
                if look(place, head, run).state != "running":
                    return
        except NodesFailed:
            failures += 1
            if failures == RECONNECTIONS:
                raise
        time.sleep(RECONNECT_SECONDS)


def _follow(head: Session, run: Run, seen: int) -> Iterator[bytes]:
    show = ["sudo", "systemctl", "show", "--property", "MainPID", "--value", run.unit]
    pid = head.must("find the run", show).strip()
    live = [] if pid in ("", "0") else ["--follow=name", "--retry", f"--pid={pid}", "--sleep-interval=0.2"]
    return head.follow(["tail", "--quiet", f"--bytes=+{seen + 1}", *live, f"{run.directory}/log"])


def log(head: Session, run: Run) -> Iterator[bytes]:
    """The run's log as it is now."""
    return head.follow(["cat", f"{run.directory}/log"])


def look(place: Home, head: Session, run: Run) -> Seen:
    """How ``run`` stands, asking the head only while it is not known to have ended."""
    kept = records.status(place, run)
    if kept:
        return Seen(run, kept.state, kept)
    running = run.id in active(head)
    answer = head.run(["cat", f"{run.directory}/status.json"])  # after the unit: it writes this before it ends
    if answer.exit_code == 0:
        status = fetching.parsed(RunStatus, answer.output, head, f"{run.directory}/status.json")
        return Seen(run, status.state, status)
    return Seen(run, "running" if running else "lost", None)


def describe(failure: Failure, cluster: Cluster) -> str:
    """The cause of a failed run in words: the rank, its node, its last lines."""
    node = cluster.named(failure.host)
    tail = "".join(f"\n    {line}" for line in runlog.without_chatter(failure.lines))
    if failure.reason == "host":
        return f"node {node} stopped answering"
    if failure.reason == "start":
        return f"its start took too long: {ADDRESS.sub(lambda found: cluster.named(found[0]), ' '.join(failure.lines))}"
    if failure.reason == "launcher":
        return f"the launcher on {node} failed before any rank did:{tail}"
    killed = " (killed: out of memory?)" if failure.exit_code == KILLED else ""
    how = "raised an error" if failure.exit_code is None else f"ended with exit code {failure.exit_code}{killed}"
    return f"rank {failure.rank} on {node} {how}:{tail}"


def overview(place: Home, cluster: Cluster | None, chosen: Sequence[Run] | None = None) -> list[Seen]:
    """The ``chosen`` runs (default: every known one) as they stand.

    The head is asked only about those that are not known to have ended; where it does not answer, they are "unknown".
    """
    kept = {run.id: (run, records.status(place, run)) for run in (records.known(place) if chosen is None else chosen)}
    otherwise = "unknown" if cluster else "lost"
    seen = {name: Seen(run, status.state if status else otherwise, status) for name, (run, status) in kept.items()}
    open_runs = [s.run for s in seen.values() if s.status is None]
    if cluster and open_runs:
        with suppress(NodesFailed), head_session(place, cluster) as head:
            seen |= {run.id: look(place, head, run) for run in open_runs}
    return list(seen.values())


def stop(head: Session, run: Run) -> None:
    """Stop the run's unit, which ends its processes on every node."""
    argv = ["sudo", "systemctl", "stop", run.unit]
    answer = head.run(argv, timeout=launch.STOP_SECONDS + 30.0)
    if answer.exit_code and "not loaded" not in answer.errors:
        raise CommandFailed("stop the run", argv, answer.exit_code, [answer.errors.strip()])


def sweep(place: Home, cluster: Cluster, run: Run) -> None:
    """End what a run left on the nodes. Raises NodesFailed where one does not answer."""

    def end(name: str) -> None:
        with ssh.connect(place, cluster, name) as session:
            session.run([PYTHON, "-m", "orchestrator.trainer.supervision.processes", run.id])

    _, reasons = ssh.on_every_node(cluster, end)
    if reasons:
        again = command(f"stop {run.id}", cluster.name)
        raise NodesFailed("processes of the run may be left on", reasons, f"{again} once they answer")
