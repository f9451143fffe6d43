"""Health: what is asked of every node before a run starts, and how the answers are judged."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from orchestrator import ssh
from orchestrator.cluster import MIN_SHARED_FREE, PYTHON, SHARED, Cluster, Node
from orchestrator.errors import ConfigError, ContractError, NodesFailed, StateError, command
from orchestrator.schema import NodeFacts
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import Home

MIN_MEMORY = 200 << 20


@dataclass(frozen=True)
class Check:
    """One question with its answer; ``detail`` is the remedy where it is not ok."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Health:
    """Every node's facts, its checks, and the reasons of those that did not answer."""

    facts: dict[str, NodeFacts]
    checks: dict[str, list[Check]]

    @property
    def failed(self) -> dict[str, str]:
        """Failing nodes with what is wrong with each."""
        wrong = {name: "; ".join(c.detail for c in checks if not c.ok) for name, checks in self.checks.items()}
        return {name: detail for name, detail in wrong.items() if detail}


def health(place: Home, cluster: Cluster, digest: str) -> Health:
    """Ask every node at once; a node that does not answer has the one failed check "ssh"."""

    def ask(name: str) -> NodeFacts:
        with ssh.connect(place, cluster, name) as session:
            return facts(session, cluster, cluster.nodes[name])

    answers, reasons = ssh.on_every_node(cluster, ask)
    gone = {cluster.nodes[name].private_address for name in reasons}  # known already: not the head's fault
    checks = {name: judge(answers[name], cluster, digest, gone) for name in answers}
    checks |= {name: [Check("ssh", False, f"ssh: {reason}")] for name, reason in reasons.items()}
    return Health(answers, {name: checks[name] for name in cluster.nodes})


def facts(session: Session, cluster: Cluster, node: Node) -> NodeFacts:
    """What ``node`` says of itself; the head also tries ssh to every other node."""
    others = [other.private_address for other in cluster.nodes.values() if other is not node]
    peers = others if node.role == "head" else []
    argv = [PYTHON, "-m", "orchestrator.trainer.watching.health", node.private_address, SHARED, *peers]
    answer = session.run(argv)
    if answer.exit_code:
        raise Unreachable(f"the trainer does not run: {answer.errors.strip()[-500:]}")
    try:
        return NodeFacts.model_validate_json(answer.output)
    except ValidationError as error:
        raise ContractError(f"{session.node}: health gave another shape: {error}") from error


def judge(facts: NodeFacts, cluster: Cluster, digest: str, gone: Container[str] = ()) -> list[Check]:
    """Pure: the checks of one node; peers at addresses that are ``gone`` do not count against it."""
    refused = {cluster.named(a): why for a, why in facts.unreachable.items() if a not in gone}
    strangers = "; ".join(f"no ssh from the head to {name}: {why}" for name, why in refused.items())
    free, memory, name, found = facts.shared_free, facts.memory_available, facts.hostname, facts.digest
    deploy = command("deploy", cluster.name)
    small = f"only {free / 2**30:.1f} GiB free in {SHARED}: remove old runs and data by {command('ssh', cluster.name)}"
    return [
        _check("address", facts.interface, f"on {facts.interface}", "its private address is on no interface"),
        _check("name", facts.resolves, name, f"its own name {name} does not resolve: add it to /etc/hosts"),
        _check("trainer", found == digest, digest, f"trainer {found} instead of {digest}: {deploy}"),
        _check("shared", facts.shared_writable, SHARED, f"{SHARED} cannot be written: {deploy}"),
        _check("space", free >= MIN_SHARED_FREE, f"{free / 2**30:.0f} GiB free", small),
        _check(
            "memory",
            memory >= MIN_MEMORY or facts.runs,
            f"{memory >> 20} MiB free",
            f"only {memory >> 20} MiB of memory free",
        ),
        _check("peers", not refused, "ssh from the head", strangers),
    ]


def _check(name: str, ok: object, good: str, bad: str) -> Check:
    return Check(name, bool(ok), good if ok else bad)


def require_healthy(health: Health, cluster: Cluster) -> None:
    """Raises NodesFailed naming the nodes on which no run should start."""
    if health.failed:
        deploy, status = command("deploy", cluster.name), command("status", cluster.name)
        raise NodesFailed("not healthy", health.failed, f"{deploy} heals a cluster; {status} shows every check")


def require_idle(health: Health, cluster: Cluster) -> None:
    """Raises StateError where a process of a run is on a node."""
    require_free(sorted({run for facts in health.facts.values() for run in facts.runs}), cluster)


def require_free(runs: Sequence[str], cluster: Cluster) -> None:
    """Raises StateError where there are ``runs`` under way."""
    if runs:
        remedy = f"wait for it, or {command(f'stop {runs[0]}', cluster.name)}"
        raise StateError(f"run {runs[0]} is using the cluster", remedy)


def common_interface(health: Health, chosen: str | None, nodes: Sequence[str]) -> str:
    """The interface that Horovod is told to use: ``chosen``, else the one that all ``nodes`` have in common.

    Raises ConfigError where a node lacks ``chosen``, StateError where they have none in common.
    """
    if chosen:
        without = {name: health.facts[name].interfaces for name in nodes if chosen not in health.facts[name].interfaces}
        problems = [f"launch.network_interface: {chosen}: {n} has only {', '.join(i)}" for n, i in without.items()]
        if problems:
            raise ConfigError(problems)
        return chosen
    names = {name: health.facts[name].interface or "" for name in nodes}
    if len(set(names.values())) > 1:
        listing = ", ".join(f"{node}: {interface}" for node, interface in names.items())
        raise StateError(
            f"the nodes' interfaces have different names ({listing}), and Horovod takes one name for all",
            "rename them, or set launch.network_interface to one that every node has",
        )
    return next(iter(names.values()))
