"""The provider `hosts`, with an ssh that answers from files: its questions, and how it uses the answers."""

import base64
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import NodesFailed, PreflightError
from orchestrator.providers import hosts
from orchestrator.providers.hosts import host_set as hosts_of_cluster
from orchestrator.providers.hosts import login, survey_answers
from orchestrator.providers.hosts.host_set import HostSet
from orchestrator.ssh import Unreachable
from orchestrator.state import Record
from tests.unit.conftest import StandIn

SURVEY = """survey system debian 12
survey architecture x86_64
survey id id-of-{host}
survey boot first
survey cpus 8
survey gpus {gpus}
survey connection 10.0.0.1 50000 {host} 22
survey addresses {host}
survey ids 0 1 1000
survey sudo yes
{more}
"""
# The last two words are the host and its command; a host without a file does not answer.
SSH = """
echo "$*" >> {here}/asked
if [ "$1" = -G ]; then
  for host; do :; done
  echo "user lab"; echo "hostname ${{host#*@}}"; echo "port 22"; exit
fi
for word; do host=$command; command=$word; done
file={here}/${{host#*@}}
if [ ! -e "$file" ]; then echo "ssh: connect to host ${{host#*@}} port 22: Connection refused" >&2; exit 255; fi
case $command in
  */usr/bin/python3*) if [ -e "$file.test" ]; then while read -r line; do echo "$line"; done < "$file.test"; fi ;;
  *"sudo -n sh"*) echo "$command" >> {here}/as-root; if [ -e "$file.refuses" ]; then echo no, never >&2; exit 1; fi ;;
  *) while read -r line; do echo "$line"; done < "$file" ;;
esac
"""
Say = Callable[..., None]


@pytest.fixture
def answer(stand_in: StandIn, tmp_path: Path) -> Say:
    """Return a function that sets a host's answer."""
    stand_in("ssh", SSH.format(here=tmp_path))

    def write(host: str, *more: str, gpus: int = 0) -> None:
        lines = "\n".join(f"survey {line}" for line in more)
        (tmp_path / host).write_text(SURVEY.format(host=host, gpus=gpus, more=lines))

    return write


def config(*addresses: str, **more: Any) -> Config:
    return Config.model_validate({"name": "demo", "provider": "hosts", "hosts": {"addresses": list(addresses)}, **more})


def record(settings: Config, last: Record | None = None) -> Record:
    """Return the record of a deploy, after ``last`` if given."""
    survey_answers.survey(settings)
    before = last or Record(id="1a2b3c4d", config={})
    variables = {
        "slots": None,
        "ssh_public_key": "ssh-ed25519 AAAA orchestrator",
        "hosts": hosts.variables(settings, before),
    }
    return before.model_copy(update={"config": settings.model_dump(mode="json"), "variables": variables})


def deployed(settings: Config) -> Record:
    """Return the record of a cluster that is deployed."""
    drafted = record(settings)
    host_set = HostSet.model_validate(drafted.variables["hosts"])
    return drafted.model_copy(update={"cluster": hosts_of_cluster.cluster_of("demo", host_set, host_set.machines)})


def marked(deployment: str = "1a2b3c4d", node: str = "demo-head") -> tuple[str, ...]:
    return "mark_cluster demo", f"mark_id {deployment}", f"mark_node {node}", "mark_by lab@desk"


def test_all_problems_of_all_hosts_are_reported_at_once(answer: Say) -> None:
    answer("10.0.0.10", "sudo sudo: a password is required", "system fedora 43")
    with pytest.raises(PreflightError) as caught:
        hosts.preflight(config("10.0.0.10", "guest@10.0.0.11"), None)
    assert len(caught.value.findings) == 3
    assert "guest@10.0.0.11 cannot be reached: ssh: connect to host 10.0.0.11 port 22" in caught.value.message


def test_deploy_surveys_and_tests_each_host_once(answer: Say, tmp_path: Path) -> None:
    answer("10.0.0.10")
    answer("10.0.0.11")
    settings = config("10.0.0.10", "10.0.0.11")
    hosts.preflight(settings, None)
    hosts.variables(settings, Record(id="1a2b3c4d", config={}))
    assert len((tmp_path / "asked").read_text().splitlines()) == 6  # per host: ssh's settings, survey, test


def test_first_host_is_the_head_and_surveys_describe_the_nodes(answer: Say) -> None:
    answer("10.0.0.10")
    answer("10.0.0.11", gpus=4)
    answer("10.0.0.12")
    variables = record(config("10.0.0.10", "guest@10.0.0.11", "10.0.0.12", nodes=2)).variables["hosts"]
    assert [(m["name"], m["role"], m["id"], m["gpus"], m["private_address"]) for m in variables["machines"]] == [
        ("demo-head", "head", "id-of-10.0.0.10", 0, "10.0.0.10"),
        ("demo-worker-0", "worker", "id-of-10.0.0.11", 4, "10.0.0.11"),
    ]


def test_hosts_without_a_driver_have_no_gpus(answer: Say) -> None:
    answer("10.0.0.10", gpus=1)
    answer("10.0.0.11")
    variables = record(config("10.0.0.10", "10.0.0.11", gpu={"driver": "none"})).variables["hosts"]
    assert [machine["gpus"] for machine in variables["machines"]] == [0, 0]


def test_gpus_are_those_of_the_first_host_with_any(answer: Say) -> None:
    answer("10.0.0.10")
    answer("10.0.0.11", "gpu NVIDIA A100-SXM4-40GB", gpus=4)
    settings = config("10.0.0.10", "10.0.0.11")
    hosts.preflight(settings, None)
    assert hosts.gpu_and_image(settings, None) == ("NVIDIA A100-SXM4-40GB", "debian 12")
    single_host = config("10.0.0.10")
    hosts.preflight(single_host, None)
    assert hosts.gpu_and_image(single_host, None) == (None, "debian 12")


def test_driver_fits_the_oldest_gpus(answer: Say) -> None:
    """Pascal needs NVIDIA's proprietary kernel modules, which also support newer GPUs."""
    answer("10.0.0.10", "gpu NVIDIA GeForce RTX 3090", gpus=1)
    answer("10.0.0.11", "gpu NVIDIA GeForce GTX 1080 Ti", gpus=2)
    settings = config("10.0.0.10", "10.0.0.11")
    assert hosts.gpu_and_image(settings, None) == ("NVIDIA GeForce GTX 1080 Ti", "debian 12")


def test_firewall_between_hosts_is_found(answer: Say, tmp_path: Path) -> None:
    for host, other in (("10.0.0.10", "10.0.0.11"), ("10.0.0.11", "10.0.0.10")):
        answer(host, "firewall ufw")
        (tmp_path / f"{host}.test").write_text(f"test port 4000 end\ntest {other}:4000 ETIMEDOUT end\n")
    with pytest.raises(PreflightError) as caught:
        hosts.preflight(config("10.0.0.10", "10.0.0.11"), None)
    first, second = caught.value.findings
    assert first.message.endswith("10.0.0.11 cannot connect to 10.0.0.10 at 10.0.0.10:4000: Connection timed out")
    assert "on 10.0.0.11: `sudo ufw allow from 10.0.0.10`" in second.hint
    hosts.preflight(config("10.0.0.10"), None)


def test_unreachable_host_is_left_out_with_min_nodes_and_no_head(answer: Say) -> None:
    answer("10.0.0.10")
    answer("10.0.0.12")
    settings = config("10.0.0.10", "10.0.0.11", "10.0.0.12", min_nodes=2)
    hosts.preflight(settings, None)
    down = hosts.variables(settings, Record(id="1", config={}))["machines"][1]
    assert "Connection refused" in down["problem"]
    for refused in (config("10.0.0.11", "10.0.0.10", min_nodes=1), config("10.0.0.10", "10.0.0.11", min_nodes=2)):
        with pytest.raises(PreflightError, match=r"10\.0\.0\.11 cannot be reached"):
            hosts.preflight(refused, None)


def test_former_node_is_leaving_until_it_is_restored(answer: Say) -> None:
    answer("10.0.0.10", *marked())
    answer("10.0.0.11", *marked(node="demo-worker-0"))
    both = record(config("10.0.0.10", "10.0.0.11"))
    less = record(config("10.0.0.10"), both)
    assert [machine["id"] for machine in less.variables["hosts"]["leaving"]] == ["id-of-10.0.0.11"]
    still = record(config("10.0.0.10"), less)
    assert still.variables["hosts"]["leaving"] == less.variables["hosts"]["leaving"]
    answer("10.0.0.11")
    assert record(config("10.0.0.10"), still).variables["hosts"]["leaving"] == []


def test_same_host_under_another_name_is_not_leaving(answer: Say) -> None:
    answer("10.0.0.10")
    before = record(config("10.0.0.10"))
    assert record(config("lab@10.0.0.10"), before).variables["hosts"]["leaving"] == []


@pytest.mark.parametrize("addresses", [["10.0.0.11"], ["10.0.0.11", "10.0.0.10"], ["10.0.0.12", "10.0.0.10"]])
def test_another_head_of_a_deployed_cluster_is_refused(answer: Say, addresses: list[str]) -> None:
    for host in ("10.0.0.10", "10.0.0.11", "10.0.0.12"):
        answer(host)
    last = deployed(config("10.0.0.10", "10.0.0.11"))
    with pytest.raises(
        PreflightError, match=f"the first is {addresses[0]}, but .* the head 10.0.0.10, which"
    ) as caught:
        hosts.preflight(config(*addresses), last)
    assert caught.value.hint == "put 10.0.0.10 first again, or `orchestrator teardown --cluster demo` first"
    hosts.preflight(config(*addresses), last.model_copy(update={"cluster": None}))
    hosts.preflight(config(*addresses), None)


def test_head_is_known_by_its_id_or_else_by_its_login(answer: Say) -> None:
    answer("10.0.0.10")
    answer("10.0.0.11")
    last = deployed(config("10.0.0.10", "10.0.0.11"))
    answer("10.0.0.20", "id id-of-10.0.0.10")
    hosts.preflight(config("lab@10.0.0.20", "10.0.0.11"), last)
    answer("10.0.0.10", "id set-up-anew")
    hosts.preflight(config("10.0.0.10", "10.0.0.11"), last)
    answer("10.0.0.10", "id id-of-10.0.0.11")
    answer("10.0.0.11", "id id-of-10.0.0.10")
    with pytest.raises(PreflightError, match=r"the first is 10\.0\.0\.10, but .* the head 10\.0\.0\.10"):
        hosts.preflight(config("10.0.0.10", "10.0.0.11"), last)


@pytest.mark.parametrize(("key", "old", "new"), [("storage", "nfs", "mounted"), ("trainer", "container", "installed")])
def test_other_storage_or_trainer_of_a_deployed_cluster_is_refused(answer: Say, key: str, old: str, new: str) -> None:
    answer("10.0.0.10", "shared 1", "trainer yes", *marked())
    last = deployed(config("10.0.0.10"))
    changed = config(hosts={"addresses": ["10.0.0.10"], key: new})
    with pytest.raises(PreflightError) as caught:
        hosts.preflight(changed, last)
    assert caught.value.message == f"hosts.{key}: {new}, but cluster 'demo' is deployed with {old}"
    assert caught.value.hint == f"set hosts.{key}: {old} again, or `orchestrator teardown --cluster demo` first"
    hosts.preflight(config("10.0.0.10"), last)
    hosts.preflight(changed, last.model_copy(update={"cluster": None}))


def test_survey_has_marked_hosts_and_unreachable_ones(answer: Say, tmp_path: Path) -> None:
    for host in ("10.0.0.10", "10.0.0.11", "10.0.0.12"):
        answer(host)
    deployed = record(config("10.0.0.10", "10.0.0.11", "guest@10.0.0.12"))
    assert hosts.list_resources(deployed) == []
    answer("10.0.0.10", *marked())
    answer("10.0.0.11", *marked("another"))
    (tmp_path / "10.0.0.12").unlink()
    resources = [(str(resource), resource.usable) for resource in hosts.list_resources(deployed)]
    assert resources == [("host 10.0.0.10 (demo-head)", True), ("host guest@10.0.0.12 (demo-worker-1)", False)]


def test_host_that_was_never_reached_is_not_left_behind(answer: Say) -> None:
    answer("10.0.0.10")
    assert hosts.list_resources(record(config("10.0.0.10", "10.0.0.11", min_nodes=1))) == []
    assert hosts.list_resources(Record(id="1a2b3c4d", config={})) == []


def test_unowned_hosts_have_the_clusters_name(answer: Say) -> None:
    answer("10.0.0.10", *marked("another"))
    answer("10.0.0.11")
    assert [
        str(resource) for resource in hosts.unowned_resources(config("10.0.0.10", "10.0.0.11", "10.0.0.12", nodes=1))
    ] == ["host 10.0.0.10 (demo-head)"]
    assert hosts.unowned_resources(Config(name="demo", provider="hosts")) == []


def test_refused_login_names_the_host_and_the_message(answer: Say, tmp_path: Path) -> None:
    answer("10.0.0.10")
    answer("10.0.0.11")
    (tmp_path / "10.0.0.11.refuses").touch()
    with pytest.raises(NodesFailed) as caught:
        hosts.provision(state.for_cluster("demo"), record(config("10.0.0.10", "10.0.0.11")), [], lambda line: None)
    assert caught.value.reasons == {"demo-worker-0": "no, never"}
    lines = [base64.b64decode(line.split()[1]).decode() for line in (tmp_path / "as-root").read_text().splitlines()]
    assert all("cluster=demo\nid=1a2b3c4d\n" in text and "key='ssh-ed25519 AAAA'\n" in text for text in lines)
    assert all("uid=700\ngid=700\n" in text for text in lines)


def test_missing_key_is_a_single_finding(answer: Say) -> None:
    with pytest.raises(PreflightError, match=r"hosts\.identity: no-such-key: no such file"):
        hosts.preflight(config(hosts={"addresses": ["10.0.0.10"], "identity": "no-such-key"}), None)


def test_key_in_whose_path_ssh_sees_a_variable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "${HOME}").touch()
    with pytest.raises(PreflightError, match=r"hosts\.identity: .*: ssh would replace \$\{...\} in its path"):
        hosts.preflight(config(hosts={"addresses": ["10.0.0.10"], "identity": str(tmp_path / "${HOME}")}), None)


def test_login_has_the_users_values_and_ssh_decides_the_rest() -> None:
    values = {"addresses": ["10.0.0.10", "guest@10.0.0.11:2222"], "identity": "/keys/a", "jump": "gate@10.0.0.10:2022"}
    settings = config(hosts=values)
    first, second = (login.of(settings, host) for host in settings.hosts.addresses)
    key = ["-o", 'IdentityFile="/keys/a"', "-o", "IdentitiesOnly=yes"]
    assert first.words == [*key, "10.0.0.10"]  # the route to the others
    assert second.words == [*key, "-J", "gate@10.0.0.10:2022", "-p", "2222", "guest@10.0.0.11"]
    assert str(second) == "guest@10.0.0.11:2222"


def test_reason_is_the_first_and_last_line_of_ssh(stand_in: StandIn) -> None:
    stand_in("ssh", "printf '@@@@\\n@ WARNING @\\none\\ntwo\\nthree\\n' >&2; exit 255")
    with pytest.raises(Unreachable, match=r"^@ WARNING @; three$"):
        login.run(login.Login(address="10.0.0.10"), "survey.sh")


def test_any_machine_can_be_surveyed(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in place of ssh surveys this machine."""
    path = os.environ["PATH"]
    stand_in("ssh", 'for word; do :; done; exec /bin/sh -c "$word"')
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], path]))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.10 2222")
    survey = survey_answers.survey_host(login.Login(address="10.0.0.10"))
    assert survey.architecture == os.uname().machine
    assert survey.cpus == len(os.sched_getaffinity(0))
    assert (survey.reached_at, survey.listens_on) == ("10.0.0.10", 2222)
    assert os.getuid() in survey.ids
    assert len(survey.id) == 16


def test_survey_has_the_first_address_of_each_interface(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Health checks and ranks know an interface by its first address."""
    listed = (
        "1: lo    inet 127.0.0.1/8 scope host lo",
        "2: eth0    inet 10.0.0.10/24 brd 10.0.0.255 scope global eth0",
        "2: eth0    inet 10.0.0.11/24 scope global secondary eth0",
        "3: tun0    inet 10.8.0.1 peer 10.8.0.2/32 scope global tun0",
    )
    path = os.environ["PATH"]
    stand_in("ssh", 'for word; do :; done; exec /bin/sh -c "$word"')
    stand_in("ip", f"[ \"$*\" = '-o -4 address show' ] && printf '%s\\n' {shlex.join(listed)}")
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], path]))
    survey = survey_answers.survey_host(login.Login(address="10.0.0.10"))
    assert survey.addresses == ["10.0.0.10", "10.8.0.1"]


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ("docker.dockerd  enabled   active    -", "yes"),
        ("docker.dockerd  disabled  inactive  -", ""),
        ("", ""),
    ],
)
def test_survey_finds_docker_as_a_snap(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, service: str, found: str
) -> None:
    path = os.environ["PATH"]
    stand_in("ssh", 'for word; do :; done; exec /bin/sh -c "$word"')
    stand_in("snap", f"[ $1 = services ] && printf 'Service  Startup  Current  Notes\\n{service}\\n'")
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], path]))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.10 2222")
    assert survey_answers.survey_host(login.Login(address="10.0.0.10")).docker_snap == found


@pytest.mark.parametrize("script", sorted(path.name for path in Path(hosts.__file__).parent.glob("*.sh")))
def test_scripts_are_posix_shell(script: str) -> None:
    for shell in filter(None, (shutil.which(name) for name in ("dash", "bash"))):
        subprocess.run([shell, "-n", Path(hosts.__file__).with_name(script)], check=True)


def test_gpus_of_every_host_must_fit_the_framework(answer: Say) -> None:
    answer("10.0.0.10", "gpu NVIDIA A100-SXM4-40GB", gpus=1)
    answer("10.0.0.11", "gpu NVIDIA GeForce RTX 5090", gpus=1)
    answer("10.0.0.12", "gpu NVIDIA GeForce RTX 5090", gpus=1)
    addresses = ("10.0.0.10", "10.0.0.11", "guest@10.0.0.12")
    with pytest.raises(PreflightError) as caught:
        hosts.gpu_and_image(config(*addresses), None)
    assert caught.value.message.startswith("hosts.addresses: 10.0.0.11: gpu: NVIDIA GeForce RTX 5090 (blackwell): ")
    assert "`gpu.driver: none`" in caught.value.hint
    assert "leave this host out" in caught.value.hint
    assert len(caught.value.findings) == 1
    expected = ("NVIDIA A100-SXM4-40GB", "debian 12")
    for fitting in ({"framework": "pytorch"}, {"gpu": {"driver": "none"}}):
        assert hosts.gpu_and_image(config(*addresses, **fitting), None) == expected
