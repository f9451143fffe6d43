"""Machines that one has already: two containers that look like machines, reached as plain ssh hosts.

The head has an account `orchestrator` of its own; the worker lets `lab` in, at another port.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.config import Local
from orchestrator.docker import context
from orchestrator.docker.context import Variant
from tests.e2e.command import Cli, docker, left_on_engine
from tests.e2e.standing import AS_MACHINE, START_MACHINE, Standing, someone

OWNER = "e2e-hosts-nodes"
FIRST, SECOND = f"{OWNER}-0", f"{OWNER}-1"
HEAD, WORKER = "e2e-hosts-head", "e2e-hosts-worker-0"
SCRIPT = Path(__file__).parent / "scripts" / "own_script.py"
# As on somebody's own machine: an account that may sudo, sshd at a port of its choice, nothing of ours.
OF_LAB = """
useradd --create-home --shell /bin/bash --uid 1234 lab
echo 'lab ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/lab
install -d -m 700 -o lab -g lab /home/lab/.ssh
install -m 600 -o lab -g lab /home/orchestrator/.ssh/authorized_keys /home/lab/.ssh/
userdel --remove orchestrator 2> /dev/null
rm /etc/sudoers.d/orchestrator
echo 'Port 2222' > /etc/ssh/sshd_config.d/50-port.conf
systemctl restart ssh
"""
# Services of theirs that are called as some of ours are, where we have none.
THEIRS = """
cd /etc/systemd/system
printf '[Service]\nExecStart=/bin/true\n' | tee notebook.service > dcgm-exporter.service
"""
# All that a deploy could have changed and a teardown must restore. What runs leave in the home of an account stays.
STATE = """
cat /etc/passwd /etc/group /etc/shadow /etc/hosts
find /etc/orchestrator /etc/profile.d /etc/ssh /etc/sudoers.d /etc/systemd/system /home /opt/orchestrator/bin \
  /root /usr/local /var/lib/orchestrator -name .keras -prune -o -printf '%M %u %p\n' 2> /dev/null
find /etc/profile.d /etc/ssh /etc/sudoers.d /home -name .keras -prune -o -type f -exec sha256sum {} +
"""


@dataclass(frozen=True)
class Machines:
    """Containers, their addresses, what they were like at first, and the user's private key."""

    head: str
    worker: str
    before: dict[str, set[str]]
    shared: set[str]
    key: Path

    def settings(self, *more: str, jump: str = "null") -> str:
        """A cluster.yaml with both, and ``more`` entries."""
        addresses = ", ".join([f"orchestrator@{self.head}", f"lab@{self.worker}:2222", *more])
        return (
            f"name: e2e-hosts\nprovider: hosts\nhosts:\n  addresses: [{addresses}]\n  identity: {self.key}\n"
            f"  jump: {jump}\n  storage: mounted\n  trainer: installed\n"
        )


def like(machine: str) -> set[str]:
    """What can be seen of a machine."""
    return set(docker("exec", machine, "sh", "-c", STATE))


def shared() -> set[str]:
    """What is in the storage that the machines had already, and whose it is."""
    return set(docker("exec", FIRST, "find", "/shared", "-printf", "%M %u %p\\n"))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    image, key = context.tag("node", Variant(Local().base_image)), tmp_path_factory.mktemp("user") / "id_ed25519"
    standing = Standing(OWNER)
    try:
        standing.prepare()
        head, worker = (standing.start(name, image, key, AS_MACHINE, START_MACHINE) for name in (FIRST, SECOND))
        docker("exec", SECOND, "sh", "-ec", OF_LAB)
        docker("exec", FIRST, "mkdir", "-p", "/shared/data/theirs")
        for name in (FIRST, SECOND):
            docker("exec", name, "sh", "-ec", THEIRS)
        yield Machines(head, worker, {name: like(name) for name in (FIRST, SECOND)}, shared(), key)
    finally:
        standing.remove()


@pytest.fixture(scope="module")
def user(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Someone who may log into both."""
    cli = someone(tmp_path_factory.mktemp("hosts"), machines.key)
    (cli.state / "cluster.yaml").write_text(machines.settings())
    return cli


@pytest.fixture
def write_settings(user: Cli, machines: Machines) -> Iterator[Callable[..., None]]:
    """Changes cluster.yaml for one test."""

    def say(*more: str, jump: str = "null") -> None:
        (user.state / "cluster.yaml").write_text(machines.settings(*more, jump=jump))

    yield say
    say()


def test_a_deploy_makes_nodes_of_hosts_with_different_users_and_ports(user: Cli, machines: Machines) -> None:
    cluster = user.json("deploy", cluster="e2e-hosts")["cluster"]
    assert [(name, node["public_address"], node["port"]) for name, node in cluster["nodes"].items()] == [
        (HEAD, machines.head, 22),
        (WORKER, machines.worker, 2222),
    ]
    assert (cluster["ssh_user"], cluster["storage"], cluster["trainer"]) == ("orchestrator", "mounted", "installed")


def test_a_second_deploy_changes_nothing(user: Cli) -> None:
    before = [like(FIRST), like(SECOND)]
    assert user.json("deploy", cluster="e2e-hosts")["changed"] == {HEAD: 0, WORKER: 0}
    assert [like(FIRST), like(SECOND)] == before


def test_check_proves_the_allreduce_on_both(user: Cli) -> None:
    check = user.json("check", cluster="e2e-hosts")
    assert [(rank["host"], rank["allreduce_sum"]) for rank in check["ranks"]] == [(FIRST, 3.0), (SECOND, 3.0)]


def test_a_script_runs_on_both_over_what_is_faster_as_measured_once(user: Cli) -> None:
    """Gloo was measured by the check before."""
    words = ("python", str(SCRIPT), "--factor", "2", "--words", "hosts")
    for measured in (["Measuring a step over mpi, once on these nodes ..."], []):
        done = user("run", "--", *words, cluster="e2e-hosts")
        assert "[rank 1] rank 1 of 2 greets: 6 hosts" in done.stdout
        assert re.findall("Measuring a step over .* \\.\\.\\.", done.stderr) == measured
    runs = user.json("runs", cluster="e2e-hosts")
    assert [run["kind"] for run in runs] == ["check", "check", "script", "script"]
    assert [run["controller"] for run in runs[:2]] == ["gloo", "mpi"]
    assert runs[2]["controller"] == runs[3]["controller"]


def test_a_host_that_is_down_is_named_and_nothing_is_touched(
    user: Cli, machines: Machines, write_settings: Callable[..., None]
) -> None:
    write_settings(down := f"guest@{machines.head}:2299")
    refused = user("deploy", code=2, cluster="e2e-hosts").stderr
    assert f"{down} cannot be reached" in refused
    assert "Connection refused" in refused


def test_hosts_behind_the_head_are_nodes_and_one_that_is_down_is_left_out_where_the_others_are_enough(
    user: Cli, machines: Machines, write_settings: Callable[..., None]
) -> None:
    write_settings(f"guest@{machines.worker}:2299", jump=f"orchestrator@{machines.head}")
    through = user.json("deploy", "--min-nodes", "2", cluster="e2e-hosts")
    assert through["cluster"]["jump"] == f"orchestrator@{machines.head}"
    assert through["changed"] == {HEAD: 0, WORKER: 0}
    assert "cannot be reached" in through["missing"]["e2e-hosts-worker-1"]
    assert user("ssh", WORKER, "--", "hostname", cluster="e2e-hosts").stdout.strip() == SECOND


def test_a_host_of_another_cluster_is_refused_with_its_name(user: Cli) -> None:
    message = user("deploy", code=2, cluster="e2e-hosts-second").stderr
    assert message.count("it is a node of cluster 'e2e-hosts'") == 2
    assert "`orchestrator teardown --cluster e2e-hosts`" in message


def test_a_host_that_is_no_longer_wanted_is_given_back_as_it_was(user: Cli, machines: Machines) -> None:
    assert list(user.json("deploy", "--nodes", "1", cluster="e2e-hosts")["cluster"]["nodes"]) == [HEAD]
    assert like(SECOND) ^ machines.before[SECOND] == set()


def test_hosts_are_given_back_where_the_state_directory_is_lost(user: Cli, machines: Machines) -> None:
    shutil.rmtree(user.state / "orchestrator" / "e2e-hosts")
    assert "teardown --orphans" in user("deploy", code=2, cluster="e2e-hosts").stderr
    receipt = user.json("teardown", "--orphans", "--yes", cluster="e2e-hosts")
    assert [resource["name"] for resource in receipt["made"]] == [f"orchestrator@{machines.head} ({HEAD})"]
    assert receipt["left"] == []
    assert like(FIRST) ^ machines.before[FIRST] == set()
    assert shared() ^ machines.shared == set()


def test_teardown_leaves_accounts_and_machines_as_they_were(user: Cli, machines: Machines) -> None:
    user("deploy", cluster="e2e-hosts")
    receipt = user.json("teardown", cluster="e2e-hosts")
    assert len(receipt["made"]) == 2
    assert receipt["left"] == []
    assert {name: like(name) ^ machines.before[name] for name in (FIRST, SECOND)} == {FIRST: set(), SECOND: set()}
    assert shared() ^ machines.shared == set()
    assert not (user.state / "orchestrator" / "e2e-hosts" / "state.json").exists()
    assert len(left_on_engine()) == 4, "two machines, their network and their volume"
