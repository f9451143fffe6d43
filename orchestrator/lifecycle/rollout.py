"""Run the steps of a deploy on the nodes that can take them, as long as enough nodes are left."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator import health, progress, providers, state
from orchestrator.ansible import runner
from orchestrator.ansible.inventory import inventory
from orchestrator.cluster import Cluster
from orchestrator.config import stored
from orchestrator.errors import NodesFailed
from orchestrator.lifecycle import host_vars, unchanged
from orchestrator.monitoring import alertmanager
from orchestrator.ssh import hostkeys
from orchestrator.state import Home, Record

SSH_SECONDS = {"installed": 120.0, "container": 900.0}  # containers answer at once, machines boot first
SSH_SECONDS_EACH = 4.0  # added for each node, since many may boot on the same cores


@dataclass
class Effort:
    """A deploy under way, which succeeds with at least ``least`` nodes, the head among them.

    ``missing`` has the nodes that failed a step, with reasons; ``changed`` counts Ansible's changes by node.
    """

    place: Home
    record: Record
    least: int
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)

    def settle(self, made: Cluster, step: Callable[[Cluster], None]) -> Cluster:
        """Run ``step`` and drop the nodes that fail it.

        Returns:
            The cluster without the nodes that failed.

        Raises:
            NodesFailed: The head failed, too few nodes are left, or no failed node belongs to this cluster.
        """
        while True:
            self.remember(made)
            try:
                step(made)
            except NodesFailed as failed:
                if made.nodes.keys().isdisjoint(failed.reasons):  # no failed node belongs to this cluster
                    raise
                rest = made.without(failed.reasons)
                if made.head in failed.reasons or len(rest.nodes) < self.least:
                    raise
                progress.note(f"going on without them: {failed.message}")
                self.missing |= failed.reasons
                made = rest
            else:
                return made

    def remember(self, made: Cluster) -> None:
        known = {"cluster": made, "missing": dict(self.missing), "applied": self.record.variables}
        self.record = self.record.model_copy(update=known)
        state.write(self.place, self.record)

    def reach(self, made: Cluster) -> None:
        """Wait until every node answers on ssh, and pin the host keys of new nodes."""
        with progress.step("Waiting for ssh"):
            seconds = SSH_SECONDS[made.trainer] + SSH_SECONDS_EACH * len(made.nodes)
            pinned = hostkeys.pin(self.place, made, self.record.host_keys, seconds)
        self.record = self.record.model_copy(update={"host_keys": pinned})

    def configure(self, made: Cluster) -> None:
        alertmanager.keep(self.place, stored(self.record.config))
        given = host_vars.for_ansible(self.place, self.record, made)
        hosts = inventory(made, self.place.key, self.place.known_hosts, self.record.host_keys, given)
        mark = unchanged.fingerprint(hosts)
        with progress.step("Configuring nodes") as step:
            if mark == self.record.fingerprint and unchanged.as_left(self.place, made):
                self.changed = dict.fromkeys(made.nodes, 0)
                return
            self._note_configured("")
            recap = runner.configure(self.place, hosts, step.detail)
            self._note_configured(mark)
        self.changed = recap.changed
        for line in recap.notes:
            progress.note(f"note: {line}")

    def _note_configured(self, mark: str) -> None:
        self.record = self.record.model_copy(update={"fingerprint": mark})
        state.write(self.place, self.record)

    def judge(self, made: Cluster) -> None:
        with progress.step("Checking health"):
            digest = providers.of(self.record).trainer_digest(self.record)
            health.require_healthy(health.health(self.place, made, digest), made)
