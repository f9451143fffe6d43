"""Runs: launched on the head, followed, stopped, collected. A run belongs to the head; this side only remembers it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import checks, launch, progress, runlog, ssh, state
from orchestrator.cluster import PYTHON, Cluster, hostfile
from orchestrator.config import Launch, nearest
from orchestrator.errors import CommandFailed, NodesFailed, StateError
from orchestrator.launch import Run
from orchestrator.schema import Failure, RunStatus
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import Home

COLLECTED = ("config.json", "hostfile", "log", "status.json", "results.json", "results.csv", "hello.json", "output")
KILLED = 128 + 9


@dataclass(frozen=True)
class Seen:
    """A run as it stands now: "running", "finished", "failed", "stopped" or "lost" (its head went down with it)."""

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
        hint = "`orchestrator status` shows every node, `orchestrator deploy` heals them"
        raise NodesFailed("the head does not answer", {cluster.head: str(error)}, hint) from error


def plan(place: Home, cluster: Cluster, digest: str, options: Launch, kind: str, command: list[str]) -> Run:
    """A run that could start now: every node is healthy and free. Raises NodesFailed, StateError, ConfigError."""
    np = options.np or cluster.slots
    hosts = hostfile(cluster, np)
    with progress.step("Checking nodes"):
        health = checks.health(place, cluster, digest)
        checks.require_healthy(health, cluster)
        checks.require_idle(health)
        used = [name for name, node in cluster.nodes.items() if f"{node.private_address} " in hosts]
        interface = checks.common_interface(health, options.network_interface, used)
    started = time.time()
    identity = f"{kind}-{datetime.fromtimestamp(started):%Y%m%d-%H%M%S}"
    return Run(
        id=identity,
        kind=kind,
        command=command,
        workdir=launch.directory(identity),
        np=np,
        controller=options.controller,
        interface=interface,
        cycle_time=options.cycle_time,
        threads=launch.threads(cluster),
        memory=min(health.facts[name].memory_available // cluster.nodes[name].slots for name in used),
        nodes=used,
        started=started,
    )


def start(
    place: Home, cluster: Cluster, head: Session, run: Run, files: Mapping[str, Path], texts: Mapping[str, str]
) -> None:
    """Send ``files`` and ``texts`` (name in the run's directory -> local file, content) and start the run's unit."""
    state.replace(_record(place, run.id), run.model_dump_json(indent=2) + "\n")
    must(
        head,
        "make the run's directory",
        ["mkdir", "-p", f"{run.directory}/ranks", f"{run.directory}/output", run.workdir],
    )
    with TemporaryDirectory() as temporary:
        written = {}
        for name, text in {**texts, "hostfile": hostfile(cluster, run.np)}.items():
            written[name] = Path(temporary) / name
            written[name].write_text(text)
        head.send({**files, **written}, run.directory)
    must(head, "start the run", launch.unit_command(cluster, run))


def must(head: Session, step: str, argv: list[str]) -> str:
    answer = head.run(argv)
    if answer.exit_code:
        tail = answer.errors.strip().splitlines()[-20:]
        raise CommandFailed(step, argv, f"exit code {answer.exit_code} on {head.node}", tail)
    return answer.output


def follow(head: Session, run: Run, from_start: bool = True) -> Iterator[bytes]:
    """The run's log in pieces as it grows, until the run ends."""
    show = ["sudo", "systemctl", "show", "--property", "MainPID", "--value", run.unit]
    pid = must(head, "find the run", show).strip()
    log = f"{run.directory}/log"
    live = [] if pid in ("", "0") else ["--follow=name", "--retry", f"--pid={pid}", "--sleep-interval=0.2"]
    return head.follow(["tail", "--quiet", f"--lines={'+1' if from_start else '20'}", *live, log])


def log(head: Session, run: Run) -> Iterator[bytes]:
    """The run's log as it is now."""
    return head.follow(["cat", f"{run.directory}/log"])


def look(place: Home, head: Session, run: Run) -> Seen:
    """How ``run`` stands, asking the head only while it is not known to have ended."""
    kept = _kept_status(place, run.id)
    if kept:
        return Seen(run, kept.state, kept)
    active = head.run(["sudo", "systemctl", "is-active", run.unit]).output.strip() in (
        "active",
        "activating",
        "deactivating",
    )
    answer = head.run(["cat", f"{run.directory}/status.json"])
    if answer.exit_code == 0:
        status = RunStatus.model_validate_json(answer.output)
        return Seen(run, status.state, status)
    return Seen(run, "running" if active else "lost", None)


def describe(failure: Failure, cluster: Cluster) -> str:
    """The cause of a failed run in words: the rank, its node, its last lines."""
    node = cluster.named(failure.host)
    tail = "".join(f"\n    {line}" for line in runlog.without_chatter(failure.lines))
    if failure.reason == "host":
        return f"node {node} stopped answering"
    if failure.reason == "launcher":
        return f"the launcher on {node} failed before any rank did:{tail}"
    killed = " (killed: out of memory?)" if failure.exit_code == KILLED else ""
    return f"rank {failure.rank} on {node} ended with exit code {failure.exit_code}{killed}:{tail}"


def overview(place: Home, cluster: Cluster | None) -> list[Seen]:
    """Every known run as it stands; the head is asked only about those that are not known to have ended."""
    seen = [(run, _kept_status(place, run.id)) for run in known(place)]
    if cluster is None or all(status for _, status in seen):
        return [Seen(run, status.state if status else "lost", status) for run, status in seen]
    with head_session(place, cluster) as head:
        return [look(place, head, run) for run, _ in seen]


def stop(head: Session, run: Run) -> None:
    """Stop the run's unit, which ends its processes on every node."""
    answer = head.run(["sudo", "systemctl", "stop", run.unit], timeout=launch.STOP_SECONDS + 30.0)
    if answer.exit_code and "not loaded" not in answer.errors:
        raise CommandFailed("stop the run", ["systemctl", "stop", run.unit], answer.exit_code, [answer.errors])


def sweep(place: Home, cluster: Cluster, run: Run) -> dict[str, str]:
    """End what a lost run left on the nodes; returns the nodes that did not answer."""

    def end(name: str) -> None:
        with ssh.connect(place, cluster, name) as session:
            session.run([PYTHON, "-m", "orchestrator.trainer.processes", run.id])

    return ssh.on_every_node(cluster, end)[1]


def collect(place: Home, head: Session, run: Run) -> Path:
    """Copy what the run left (results, log, its newest checkpoint) beside its record; returns that directory."""
    target = place.runs / run.id
    there = head.run(["ls", "-A", run.directory]).output.split()
    names = [name for name in COLLECTED if name in there]
    checkpoints = head.run(["ls", f"{run.directory}/checkpoints"]).output.split()
    names += [f"checkpoints/{name}" for name in sorted(checkpoints)[-1:]]
    if names:
        head.fetch(run.directory, names, target)
    return target


def is_collected(place: Home, run: Run) -> bool:
    """Whether what the run left is here: its status comes with it, and only once it has ended."""
    return _kept_status(place, run.id) is not None


def known(place: Home) -> list[Run]:
    """Every run of this cluster that is remembered, oldest first."""
    records = place.runs.glob("*/run.json")
    return sorted((Run.model_validate_json(path.read_text()) for path in records), key=lambda run: run.started)


def get(place: Home, name: str | None) -> Run:
    """The run called ``name``, or the newest. Raises StateError where there is none."""
    everything = known(place)
    if not everything:
        raise StateError(
            f"cluster {place.name!r} has no runs yet", "`orchestrator train resnet20 --dataset mnist` makes one"
        )
    if name is None:
        return everything[-1]
    ids = [run.id for run in everything]
    if name not in ids:
        raise StateError(f"no run {name!r}{nearest(name, ids)}", "`orchestrator runs` lists them")
    return everything[ids.index(name)]


def _record(place: Home, run_id: str) -> Path:
    return place.runs / run_id / "run.json"


def _kept_status(place: Home, run_id: str) -> RunStatus | None:
    path = place.runs / run_id / "status.json"
    return RunStatus.model_validate_json(path.read_text()) if path.exists() else None
