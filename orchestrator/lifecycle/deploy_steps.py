"""Run the steps of a deploy on the nodes that can take them, as long as enough nodes are left."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator import node_health, progress, providers, state
from orchestrator.ansible import runner
from orchestrator.ansible.inventory import inventory
from orchestrator.cluster import Cluster
from orchestrator.config import stored
from orchestrator.errors import NodesFailed
from orchestrator.lifecycle import host_vars, skip_ansible_if_unchanged
from orchestrator.monitoring import alert_receivers
from orchestrator.ssh import pinned_host_keys
from orchestrator.state import Record, StateDir

SSH_SECONDS = {"installed": 120.0, "container": 900.0}  # containers answer at once, machines boot first
SSH_SECONDS_EACH = 4.0  # added for each node, since many may boot on the same cores


@dataclass
class NodeSteps:
    """A deploy under way, which succeeds with at least ``min_nodes`` nodes, the head among them.

    ``missing`` has the nodes that failed a step, with reasons; ``changed`` counts Ansible's changes by node.
    """

    state_dir: StateDir
    record: Record
    min_nodes: int
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)

    def run_on_available_nodes(self, cluster: Cluster, step: Callable[[Cluster], None]) -> Cluster:
        """Run ``step`` and drop the nodes that fail it.

        Returns:
            The cluster without the nodes that failed.

        Raises:
            NodesFailed: The head failed, too few nodes are left, or no failed node belongs to this cluster.
        """
        while True:
            self.save(cluster)
            try:
                step(cluster)
            except NodesFailed as failed:
                if cluster.nodes.keys().isdisjoint(failed.reasons):  # no failed node belongs to this cluster
                    raise
                rest = cluster.without(failed.reasons)
                if cluster.head in failed.reasons or len(rest.nodes) < self.min_nodes:
                    raise
                progress.note(f"continuing without these nodes: {failed.message}")
                self.missing |= failed.reasons
                cluster = rest
            else:
                return cluster

    def save(self, cluster: Cluster) -> None:
        update = {"cluster": cluster, "missing": dict(self.missing), "applied": self.record.variables}
        self.record = self.record.model_copy(update=update)
        state.write(self.state_dir, self.record)

    def wait_for_ssh(self, cluster: Cluster) -> None:
        """Wait until every node answers on ssh, and pin the host keys of new nodes."""
        with progress.step("Waiting for ssh"):
            seconds = SSH_SECONDS[cluster.trainer] + SSH_SECONDS_EACH * len(cluster.nodes)
            pinned = pinned_host_keys.pin(self.state_dir, cluster, self.record.host_keys, seconds)
        self.record = self.record.model_copy(update={"host_keys": pinned})

    def configure(self, cluster: Cluster) -> None:
        alert_receivers.save(self.state_dir, stored(self.record.config))
        values = host_vars.for_ansible(self.state_dir, self.record, cluster)
        hosts = inventory(cluster, self.state_dir.key, self.state_dir.known_hosts, self.record.host_keys, values)
        mark = skip_ansible_if_unchanged.fingerprint(hosts)
        with progress.step("Configuring nodes") as step:
            if mark == self.record.fingerprint and skip_ansible_if_unchanged.are_nodes_unchanged(
                self.state_dir, cluster
            ):
                self.changed = dict.fromkeys(cluster.nodes, 0)
                return
            self._note_configured("")
            recap = runner.configure(self.state_dir, hosts, step.detail)
            self._note_configured(mark)
        self.changed = recap.changed
        for line in recap.notes:
            progress.note(f"note: {line}")

    def _note_configured(self, mark: str) -> None:
        self.record = self.record.model_copy(update={"fingerprint": mark})
        state.write(self.state_dir, self.record)

    def check_health(self, cluster: Cluster) -> None:
        with progress.step("Checking health"):
            digest = providers.of(self.record).trainer_digest(self.record)
            node_health.require_healthy(node_health.health(self.state_dir, cluster, digest), cluster)
