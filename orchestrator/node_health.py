"""Health checks: the report requested from every node before a run starts, and how it is judged."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from orchestrator import ssh
from orchestrator.cluster import MIN_SHARED_FREE, PYTHON, SHARED, Cluster, Node
from orchestrator.errors import ConfigError, NodesFailed, StateError, command
from orchestrator.schema import NodeReport
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir

MIN_MEMORY = 200 << 20


@dataclass(frozen=True)
class Check:
    """One check and its result; ``detail`` is the remedy if it is not ok."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Health:
    """Reports and checks of all nodes; a node that did not answer has no report, and its checks give the reason."""

    reports: dict[str, NodeReport]
    checks: dict[str, list[Check]]

    @property
    def failed(self) -> dict[str, str]:
        """Failing nodes, each with its problems."""
        wrong = {name: "; ".join(c.detail for c in checks if not c.ok) for name, checks in self.checks.items()}
        return {name: detail for name, detail in wrong.items() if detail}


def health(state_dir: StateDir, cluster: Cluster, digest: str) -> Health:
    """Request the reports of all nodes at once and judge them.

    A node that does not answer has a single check, "ssh", which failed.

    Args:
        state_dir: State directory of the cluster.
        cluster: The nodes to ask.
        digest: Digest of the trainer that every node must have.

    Returns:
        Reports and checks of every node.
    """

    def ask(name: str) -> NodeReport:
        with ssh.connect(state_dir, cluster, name) as session:
            return node_report(session, cluster, cluster.nodes[name])

    answers, reasons = ssh.on_every_node(cluster, ask)
    gone = {cluster.nodes[name].private_address for name in reasons}  # reported already: not the head's fault
    checks = {name: judge(answers[name], cluster, digest, gone) for name in answers}
    checks |= {name: [Check("ssh", False, f"ssh: {reason}")] for name, reason in reasons.items()}
    return Health(answers, {name: checks[name] for name in cluster.nodes})


def node_report(session: Session, cluster: Cluster, node: Node) -> NodeReport:
    """Ask ``node`` for its report; the head also tries ssh to every other node.

    Args:
        session: Connection to the node.
        cluster: The cluster that the node belongs to.
        node: The node.

    Returns:
        The node's report.

    Raises:
        Unreachable: The trainer does not run on the node.
    """
    others = [other.private_address for other in cluster.nodes.values() if other is not node]
    peers = others if node.role == "head" else []
    argv = [PYTHON, "-m", "orchestrator.trainer.telemetry.node_report", node.private_address, SHARED, *peers]
    answer = session.run(argv)
    if answer.exit_code:
        raise Unreachable(f"the trainer does not run: {answer.errors.strip()[-500:]}")
    remedy = f"{command('deploy', cluster.name)} installs the trainer again"
    return ssh.parsed(NodeReport, answer.output, session, "report of the node", remedy)


def judge(report: NodeReport, cluster: Cluster, digest: str, gone: Container[str] = ()) -> list[Check]:
    """Check the report of one node. Pure.

    Args:
        report: The node's report.
        cluster: The cluster that the node belongs to.
        digest: Digest of the trainer that the node must have.
        gone: Addresses of nodes that do not answer; they do not count against this node.

    Returns:
        The checks, passed and failed.
    """
    refused = {cluster.named(a): why for a, why in report.unreachable.items() if a not in gone}
    strangers = "; ".join(f"no ssh from the head to {name}: {why}" for name, why in refused.items())
    free, memory, name, installed = report.shared_free, report.memory_available, report.hostname, report.digest
    deploy = command("deploy", cluster.name)
    refuses = "cannot be written" if report.shared_answers else "does not answer"
    measured = f"{free / 2**30:.0f} GiB free" if report.shared_answers else "not measured"
    small = f"only {free / 2**30:.1f} GiB free in {SHARED}: remove old runs and data by {command('ssh', cluster.name)}"
    return [
        _check("address", report.interface, f"on {report.interface}", "its private address is on no interface"),
        _check("name", report.resolves, name, f"its own name {name} does not resolve: add it to /etc/hosts"),
        _check("trainer", installed == digest, digest, f"trainer {installed} instead of {digest}: {deploy}"),
        _check("shared", report.shared_writable, SHARED, f"{SHARED} {refuses}: {deploy}"),
        _check("space", free >= MIN_SHARED_FREE or not report.shared_answers, measured, small),
        _check(
            "memory",
            memory >= MIN_MEMORY or report.runs,
            f"{memory >> 20} MiB free",
            f"only {memory >> 20} MiB of memory free",
        ),
        _check("peers", not refused, "ssh from the head", strangers),
    ]


def _check(name: str, ok: object, good: str, bad: str) -> Check:
    return Check(name, bool(ok), good if ok else bad)


def require_healthy(health: Health, cluster: Cluster) -> None:
    """Check that all nodes are healthy.

    Raises:
        NodesFailed: A check failed; it names the nodes on which no run should start.
    """
    if health.failed:
        deploy, status = command("deploy", cluster.name), command("status", cluster.name)
        raise NodesFailed("not healthy", health.failed, f"{deploy} repairs a cluster; {status} shows every check")


def require_idle(health: Health, cluster: Cluster) -> None:
    """Check that no process of a run is on any node.

    Raises:
        StateError: A run is using a node.
    """
    require_free(sorted({run for report in health.reports.values() for run in report.runs}), cluster)


def require_free(runs: Sequence[str], cluster: Cluster) -> None:
    """Check that ``runs``, those under way, is empty.

    Raises:
        StateError: A run is under way.
    """
    if runs:
        remedy = f"wait for it, or {command(f'stop {runs[0]}', cluster.name)}"
        raise StateError(f"run {runs[0]} is using the cluster", remedy)


def common_interface(health: Health, chosen: str | None, nodes: Sequence[str]) -> str:
    """Choose the network interface for Horovod.

    Args:
        health: Reports of all nodes.
        chosen: The configured interface; None to use the one that all ``nodes`` have in common.
        nodes: Names of the nodes that the run uses.

    Returns:
        The name of the interface.

    Raises:
        ConfigError: A node lacks ``chosen``.
        StateError: The interfaces of ``nodes`` have different names.
    """
    if chosen:
        without = {
            name: health.reports[name].interfaces for name in nodes if chosen not in health.reports[name].interfaces
        }
        problems = [f"launch.network_interface: {chosen}: {n} has only {', '.join(i)}" for n, i in without.items()]
        if problems:
            raise ConfigError(problems)
        return chosen
    names = {name: health.reports[name].interface or "" for name in nodes}
    if len(set(names.values())) > 1:
        listing = ", ".join(f"{node}: {interface}" for node, interface in names.items())
        raise StateError(
            f"the nodes' interfaces have different names ({listing}), and Horovod takes one name for all",
            "rename them, or set launch.network_interface to one that every node has",
        )
    return next(iter(names.values()))
