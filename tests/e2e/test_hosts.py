"""Provider hosts: two containers that look like existing machines, reached as plain ssh hosts.

The head has an account `orchestrator`; the worker accepts `lab` at another port.
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
from tests.e2e.command import Cli, docker, resources_on_engine, wait_for
from tests.e2e.existing_machines import MACHINE_OPTIONS, START_MACHINE, ExistingMachines, ssh_user

OWNER = "e2e-hosts-nodes"
FIRST, SECOND = f"{OWNER}-0", f"{OWNER}-1"
HEAD, WORKER = "e2e-hosts-head", "e2e-hosts-worker-0"
SCRIPT = Path(__file__).parent / "scripts" / "own_script.py"
STUDY = """
name: afar
models: lenet
datasets: synthetic
ranks: [1, 2]
until: {steps: 5}
repetitions: 1
busy_repeats: 0
"""
# A machine before any deploy: an account with sudo, sshd at another port, and no file of the tool.
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
# The machine's own services, with names that the tool uses for its own elsewhere.
THEIRS = """
cd /etc/systemd/system
printf '[Service]\nExecStart=/bin/true\n' | tee notebook.service > dcgm-exporter.service
"""
# Everything that a deploy may change and a teardown must restore. Files of runs in an account's home stay.
STATE = """
cat /etc/passwd /etc/group /etc/shadow /etc/hosts
find /etc/orchestrator /etc/profile.d /etc/ssh /etc/sudoers.d /etc/systemd/system /home /opt/orchestrator/bin \
  /root /usr/local /var/lib/orchestrator -name .keras -prune -o -printf '%M %u %p\n' 2> /dev/null
find /etc/profile.d /etc/ssh /etc/sudoers.d /home -name .keras -prune -o -type f -exec sha256sum {} +
"""


@dataclass(frozen=True)
class Machines:
    """Containers, their addresses, their state before the first deploy, and the user's private key."""

    head: str
    worker: str
    before: dict[str, set[str]]
    shared: set[str]
    key: Path

    def settings(self, *more: str, jump: str = "null") -> str:
        """Return a cluster.yaml with both machines and ``more`` addresses."""
        addresses = ", ".join([f"orchestrator@{self.head}", f"lab@{self.worker}:2222", *more])
        return (
            f"name: e2e-hosts\nprovider: hosts\nhosts:\n  addresses: [{addresses}]\n  identity: {self.key}\n"
            f"  jump: {jump}\n  storage: mounted\n  trainer: installed\n"
        )


def machine_state(machine: str) -> set[str]:
    """Return accounts, files and their permissions on a machine."""
    return set(docker("exec", machine, "sh", "-c", STATE))


def states(user: Cli) -> list[str]:
    """Return the states of all runs."""
    return [run["state"] for run in user.json("runs", cluster="e2e-hosts")]


def shared() -> set[str]:
    """Return the files of the machines' own shared storage, with owners."""
    return set(docker("exec", FIRST, "find", "/shared", "-printf", "%M %u %p\\n"))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    image, key = context.tag("node", Variant(Local().base_image)), tmp_path_factory.mktemp("user") / "id_ed25519"
    existing = ExistingMachines(OWNER)
    try:
        existing.prepare()
        head, worker = (existing.start(name, image, key, MACHINE_OPTIONS, START_MACHINE) for name in (FIRST, SECOND))
        docker("exec", SECOND, "sh", "-ec", OF_LAB)
        docker("exec", FIRST, "mkdir", "-p", "/shared/data/theirs")
        for name in (FIRST, SECOND):
            docker("exec", name, "sh", "-ec", THEIRS)
        yield Machines(head, worker, {name: machine_state(name) for name in (FIRST, SECOND)}, shared(), key)
    finally:
        existing.remove()


@pytest.fixture(scope="module")
def user(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Return the command of a user who can log into both machines."""
    cli = ssh_user(tmp_path_factory.mktemp("hosts"), machines.key)
    (cli.state / "cluster.yaml").write_text(machines.settings())
    return cli


@pytest.fixture
def write_settings(user: Cli, machines: Machines) -> Iterator[Callable[..., None]]:
    """Return a function that changes cluster.yaml for one test."""

    def write(*more: str, jump: str = "null") -> None:
        (user.state / "cluster.yaml").write_text(machines.settings(*more, jump=jump))

    yield write
    write()


def test_deploy_makes_nodes_of_hosts_with_other_users_and_ports(user: Cli, machines: Machines) -> None:
    cluster = user.json("deploy", cluster="e2e-hosts")["cluster"]
    assert [(name, node["public_address"], node["port"]) for name, node in cluster["nodes"].items()] == [
        (HEAD, machines.head, 22),
        (WORKER, machines.worker, 2222),
    ]
    assert (cluster["ssh_user"], cluster["storage"], cluster["trainer"]) == ("orchestrator", "mounted", "installed")


def test_second_deploy_changes_nothing(user: Cli) -> None:
    before = [machine_state(FIRST), machine_state(SECOND)]
    assert user.json("deploy", cluster="e2e-hosts")["changed"] == {HEAD: 0, WORKER: 0}
    assert [machine_state(FIRST), machine_state(SECOND)] == before


def test_check_proves_allreduce_on_both_hosts(user: Cli) -> None:
    check = user.json("check", cluster="e2e-hosts")
    assert [(rank["host"], rank["allreduce_sum"]) for rank in check["ranks"]] == [(FIRST, 3.0), (SECOND, 3.0)]


def test_script_runs_over_faster_controller_measured_once(user: Cli) -> None:
    """Gloo was measured by the check before."""
    words = ("python", str(SCRIPT), "--factor", "2", "--words", "hosts")
    for measured in (["Measuring a step over mpi, once on these nodes ..."], []):
        completed = user("run", "--", *words, cluster="e2e-hosts")
        assert "[rank 1] rank 1 of 2 greets: 6 hosts" in completed.stdout
        assert re.findall("Measuring a step over .* \\.\\.\\.", completed.stderr) == measured
    runs = user.json("runs", cluster="e2e-hosts")
    assert [run["kind"] for run in runs] == ["check", "check", "script", "script"]
    assert [run["controller"] for run in runs[:2]] == ["gloo", "mpi"]
    assert runs[2]["controller"] == runs[3]["controller"]


def test_tensorflow_launcher_starts_a_rank_on_each_host(user: Cli) -> None:
    words = ("--launcher", "tensorflow", "--", "python", str(SCRIPT.with_name("environment.py")))
    printed = user("run", *words, cluster="e2e-hosts").stdout
    assert sorted(re.findall('"HOROVOD_RANK": "(.)"', printed)) == ["0", "1"]


def test_study_runs_detached_on_the_head(user: Cli) -> None:
    (user.state / "afar.yaml").write_text(STUDY)
    user("study", "run", "afar.yaml", "--detach", cluster="e2e-hosts")
    wait_for("the end of the queue", lambda: {"running", "queued"}.isdisjoint(states(user)), 180.0)
    assert set(states(user)) == {"finished"}
    report = user.json("study", "run", "afar.yaml", "--resume", cluster="e2e-hosts")
    assert report["sitting"]["launches"] == []


def test_unreachable_host_is_named_and_nothing_changes(
    user: Cli, machines: Machines, write_settings: Callable[..., None]
) -> None:
    write_settings(down := f"guest@{machines.head}:2299")
    refused = user("deploy", code=2, cluster="e2e-hosts").stderr
    assert f"{down} cannot be reached" in refused
    assert "Connection refused" in refused


def test_jump_through_head_reaches_nodes_and_min_nodes_drops_one(
    user: Cli, machines: Machines, write_settings: Callable[..., None]
) -> None:
    write_settings(f"guest@{machines.worker}:2299", jump=f"orchestrator@{machines.head}")
    through = user.json("deploy", "--min-nodes", "2", cluster="e2e-hosts")
    assert through["cluster"]["jump"] == f"orchestrator@{machines.head}"
    assert through["changed"] == {HEAD: 0, WORKER: 0}
    assert "cannot be reached" in through["missing"]["e2e-hosts-worker-1"]
    assert user("ssh", WORKER, "--", "hostname", cluster="e2e-hosts").stdout.strip() == SECOND


def test_blocked_connection_between_hosts_is_named(user: Cli, machines: Machines) -> None:
    """The worker's answers to the head are dropped, as by a firewall of the worker, and its requests are rejected."""
    image = docker("inspect", "--format", "{{.Image}}", SECOND)[0]
    within = ("run", "--rm", "--cap-add", "NET_ADMIN", "--network", f"container:{SECOND}", "--entrypoint", "ip", image)
    docker(*within, "route", "add", "unreachable", machines.head)
    try:
        message = user("plan", code=2, cluster="e2e-hosts").stderr
    finally:
        docker(*within, "route", "delete", "unreachable", machines.head)
    head, worker = f"orchestrator@{machines.head}", f"lab@{machines.worker}:2222"
    assert re.search(rf"{head} cannot connect to {worker} at {machines.worker}:\d+: Connection timed out", message)
    assert re.search(rf"{worker} cannot connect to {head} at {machines.head}:\d+: No route to host", message)
    assert "2 problems; nothing was changed" in message


def test_host_of_another_cluster_is_refused_with_its_name(user: Cli) -> None:
    message = user("deploy", code=2, cluster="e2e-hosts-second").stderr
    assert message.count("it is a node of cluster 'e2e-hosts'") == 2
    assert "`orchestrator teardown --cluster e2e-hosts`" in message


def test_host_that_left_the_configuration_is_restored(user: Cli, machines: Machines) -> None:
    assert list(user.json("deploy", "--nodes", "1", cluster="e2e-hosts")["cluster"]["nodes"]) == [HEAD]
    assert machine_state(SECOND) ^ machines.before[SECOND] == set()


def test_lost_state_directory_teardown_restores_hosts(user: Cli, machines: Machines) -> None:
    shutil.rmtree(user.state / "orchestrator" / "e2e-hosts")
    assert "teardown --orphans" in user("deploy", code=2, cluster="e2e-hosts").stderr
    receipt = user.json("teardown", "--orphans", "--yes", cluster="e2e-hosts")
    assert [resource["name"] for resource in receipt["made"]] == [f"orchestrator@{machines.head} ({HEAD})"]
    assert receipt["left"] == []
    assert machine_state(FIRST) ^ machines.before[FIRST] == set()
    assert shared() ^ machines.shared == set()


def test_teardown_restores_accounts_and_machines(user: Cli, machines: Machines) -> None:
    user("deploy", cluster="e2e-hosts")
    receipt = user.json("teardown", cluster="e2e-hosts")
    assert len(receipt["made"]) == 2
    assert receipt["left"] == []
    assert {name: machine_state(name) ^ machines.before[name] for name in (FIRST, SECOND)} == {
        FIRST: set(),
        SECOND: set(),
    }
    assert shared() ^ machines.shared == set()
    assert not (user.state / "orchestrator" / "e2e-hosts" / "state.json").exists()
    assert len(resources_on_engine()) == 4, "two machines, their network and their volume"
