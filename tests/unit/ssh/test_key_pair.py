"""The cluster's own ssh key."""

import stat

import paramiko

from orchestrator import state
from orchestrator.ssh import key_pair


def test_key_is_generated_once_with_private_mode() -> None:
    path = state.for_cluster("demo").key
    public = key_pair.public_half(path)
    private = path.read_bytes()
    assert key_pair.public_half(path) == public
    assert path.read_bytes() == private
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_public_half_is_an_authorized_keys_line_that_matches() -> None:
    path = state.for_cluster("demo").key
    kind, content, comment = key_pair.public_half(path).split(" ")
    assert (kind, comment) == ("ssh-ed25519", "orchestrator")
    assert paramiko.Ed25519Key.from_private_key_file(str(path)).get_base64() == content


def test_two_clusters_have_two_keys() -> None:
    assert key_pair.public_half(state.for_cluster("a").key) != key_pair.public_half(state.for_cluster("b").key)
