"""Routes to nodes behind the head, or behind a user's jump host."""

import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import ssh, state
from orchestrator.cluster import Cluster
from orchestrator.process import background
from orchestrator.ssh import Unreachable, openssh
from orchestrator.ssh.route import open_route
from tests import builders

KEY, KNOWN = Path("k"), Path("known")


def behind_the_head(**changes: Any) -> Cluster:
    values = builders.output(nodes=3)
    values["nodes"]["demo-head"]["public_address"] = "198.51.100.7"
    return clusters.read({**values, **changes})


def test_only_workers_without_a_public_address_are_behind_the_head() -> None:
    cluster = behind_the_head()
    assert [name for name in cluster.nodes if cluster.behind(name)] == ["demo-worker-0", "demo-worker-1"]
    assert not any(builders.cluster(nodes=3).behind(name) for name in builders.cluster(nodes=3).nodes)


def test_directly_reachable_node_needs_no_tunnel() -> None:
    assert openssh.tunnel(behind_the_head(), "demo-head", KEY, KNOWN) == []
    assert openssh.tunnel(builders.cluster(), "demo-worker-0", KEY, KNOWN) == []


def test_worker_is_reached_through_the_head_with_pinned_host_keys() -> None:
    command = openssh.tunnel(behind_the_head(), "demo-worker-0", KEY, KNOWN)
    assert command[:3] == ["ssh", "-o", 'IdentityFile="k"']
    assert "StrictHostKeyChecking=yes" in command
    assert command[-3:] == ["-W", "10.0.0.11:22", "orchestrator@198.51.100.7"]


def test_jump_host_uses_the_users_settings_and_nodes_use_both() -> None:
    cluster = behind_the_head(jump="me@gate.example.org:2222")
    first = openssh.tunnel(cluster, "demo-head", KEY, KNOWN)
    assert first == [
        *("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-p", "2222"),
        *("-W", "198.51.100.7:22", "me@gate.example.org"),
    ]
    second = openssh.tunnel(cluster, "demo-worker-0", KEY, KNOWN)
    assert f"ProxyCommand={shlex.join(first)}" in second


def test_googles_proxy_reaches_every_node_by_its_name() -> None:
    cluster = clusters.read({**builders.output(), "jump": "iap:my-project/europe-west4-a"})
    assert openssh.tunnel(cluster, "demo-worker-0", KEY, KNOWN) == [
        *("gcloud", "compute", "start-iap-tunnel", "demo-worker-0", "22", "--listen-on-stdin"),
        *("--project", "my-project", "--zone", "europe-west4-a"),
    ]


def test_percent_sign_in_a_path_is_escaped() -> None:
    assert openssh.proxied(["ssh", "-i", "50%/k"]) == ["-o", "ProxyCommand=ssh -i 50%%/k"]


def test_ansible_uses_the_same_route() -> None:
    hosts = builders.inventory(behind_the_head())["all"]["hosts"]
    assert "ansible_ssh_extra_args" not in hosts["demo-head"]
    extra = shlex.split(hosts["demo-worker-0"]["ansible_ssh_extra_args"])
    assert extra[0] == "-o"
    assert extra[1].startswith("ProxyCommand=ssh ")


def test_port_of_a_node_is_used_everywhere() -> None:
    values = builders.output()
    values["nodes"]["demo-head"]["port"] = 2222
    cluster = clusters.read(values)
    command = ssh.client_command(state.for_cluster("demo"), cluster, "demo-head")
    assert command[command.index("-p") + 1] == "2222"
    assert builders.inventory(cluster)["all"]["hosts"]["demo-head"]["ansible_port"] == 2222


def test_proxy_program_is_used_as_a_socket() -> None:
    echo = "import sys; sys.stdout.write(sys.stdin.readline().upper())"
    connection, output = background.open_socket([sys.executable, "-c", echo])
    with connection:
        connection.sendall(b"hello\n")
        assert connection.recv(100) == b"HELLO\n"
        assert connection.recv(100) == b""
    assert output() == ""


def test_error_of_a_proxy_program_is_the_reason() -> None:
    complains = "import sys; sys.exit('no route to the head')"
    connection, output = background.open_socket([sys.executable, "-c", complains])
    with connection:
        assert connection.recv(100) == b""
    assert output() == "no route to the head"


@pytest.mark.parametrize(
    ("jump", "reason"),
    [
        ("gate.example.org", "ssh cannot be started: No such file or directory: install it: `sudo apt-get install"),
        (
            "iap:my-project/zone",
            "gcloud cannot be started: No such file or directory: install it: https://cloud.google",
        ),
    ],
)
def test_missing_proxy_program_is_named_and_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jump: str, reason: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made, pair = list[socket.socket](), socket.socketpair
    monkeypatch.setattr(socket, "socketpair", lambda: made.extend(pair()) or made)  # type: ignore[func-returns-value]
    cluster = clusters.read({**builders.output(), "jump": jump})
    with pytest.raises(Unreachable, match=reason), open_route(state.for_cluster("demo"), cluster, "demo-head"):
        pass
    assert [end.fileno() for end in made] == [-1, -1]


def test_cluster_without_some_workers_keeps_the_others_in_order() -> None:
    cluster = builders.cluster(nodes=4).without(["demo-worker-1"])
    assert list(cluster.nodes) == ["demo-head", "demo-worker-0", "demo-worker-2"]


@pytest.mark.parametrize(("storage", "trainer"), [("nfs", "container"), ("mounted", "installed")])
def test_missing_storage_or_trainer_is_a_group_of_the_inventory(storage: str, trainer: str) -> None:
    cluster = clusters.read({**builders.output(), "storage": storage, "trainer": trainer})
    children = builders.inventory(cluster)["all"]["children"]
    everyone = ["demo-head", "demo-worker-0"]
    assert list(children["nfs"]["hosts"]) == (everyone if storage == "nfs" else [])
    assert list(children["containers"]["hosts"]) == (everyone if trainer == "container" else [])
