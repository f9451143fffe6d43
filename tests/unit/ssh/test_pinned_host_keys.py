"""Host keys of a cluster with unreachable nodes."""

import pytest

from orchestrator import cluster as clusters
from orchestrator import state
from orchestrator.errors import NodesFailed
from orchestrator.ssh import key_pair, pinned_host_keys
from tests import builders
from tests.stand_ins import ssh_stand_in


def test_interrupted_pinning_keeps_the_keys_of_all_nodes() -> None:
    state_dir = state.for_cluster("demo")
    key_pair.public_half(state_dir.key)
    with ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key):
        output = builders.output()
        output["nodes"]["demo-head"] |= {"public_address": "127.0.0.1", "private_address": "127.0.0.1", "port": port}
        cluster = clusters.read(output)
        pinned = {"id-0": host_key, "id-1": "ssh-ed25519 AAAA"}
        state.replace(state_dir.known_hosts, f"[127.0.0.1]:{port} {host_key}\n10.0.0.11 ssh-ed25519 AAAA\n")
        before = state_dir.known_hosts.read_text()
        with pytest.raises(NodesFailed, match="demo-worker-0"):  # behind the head, which forwards nothing
            pinned_host_keys.pin(state_dir, cluster, pinned, 0.1)
    assert state_dir.known_hosts.read_text() == before
