"""The provider `hosts`, with an ssh that answers for hosts from files: what is asked, and what the answers come to."""

import base64
import os
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
from orchestrator.providers.hosts import login
from orchestrator.providers.hosts import survey as hosts_survey
from orchestrator.ssh import Unreachable
from orchestrator.state import Record
from tests.unit.conftest import StandIn

FACTS = """fact system debian 12
fact architecture x86_64
fact id id-of-{host}
fact boot first
fact cpus 8
fact gpus {gpus}
fact connection 10.0.0.1 50000 {host} 22
fact addresses {host}
fact ids 0 1 1000
fact sudo yes
{more}
"""
# The last two words are the host and what is to run there; a host without a file does not answer.
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
  *"sudo -n sh"*) echo "$command" >> {here}/as-root; if [ -e "$file.refuses" ]; then echo no, never >&2; exit 1; fi ;;
  *) while read -r line; do echo "$line"; done < "$file" ;;
esac
"""
Say = Callable[..., None]


@pytest.fixture
def say(stand_in: StandIn, tmp_path: Path) -> Say:
    """What a host says of itself from now on."""
    stand_in("ssh", SSH.format(here=tmp_path))

    def write(host: str, *more: str, gpus: int = 0) -> None:
        facts = "\n".join(f"fact {line}" for line in more)
        (tmp_path / host).write_text(FACTS.format(host=host, gpus=gpus, more=facts))

    return write


def config(*addresses: str, **more: Any) -> Config:
    return Config.model_validate({"name": "demo", "provider": "hosts", "hosts": {"addresses": list(addresses)}, **more})


def record(settings: Config, last: Record | None = None) -> Record:
    """As a deploy writes it down, after ``last`` where there was one."""
    hosts_survey.survey(settings)
    before = last or Record(id="1a2b3c4d", config={})
    variables = {
        "slots": None,
        "ssh_public_key": "ssh-ed25519 AAAA orchestrator",
        "hosts": hosts.variables(settings, before),
    }
    return before.model_copy(update={"config": settings.model_dump(mode="json"), "variables": variables})


def marked(deployment: str = "1a2b3c4d", node: str = "demo-head") -> tuple[str, ...]:
    return "mark_cluster demo", f"mark_id {deployment}", f"mark_node {node}", "mark_by lab@desk"


def test_everything_that_is_wrong_with_any_host_is_said_at_once(say: Say) -> None:
    say("10.0.0.10", "sudo sudo: a password is required", "system fedora 43")
    with pytest.raises(PreflightError) as caught:
        hosts.preflight(config("10.0.0.10", "guest@10.0.0.11"), None)
    assert len(caught.value.findings) == 3
    assert "guest@10.0.0.11 cannot be reached: ssh: connect to host 10.0.0.11 port 22" in caught.value.message


def test_hosts_are_asked_once_by_a_deploy(say: Say, tmp_path: Path) -> None:
    say("10.0.0.10")
    say("10.0.0.11")
    settings = config("10.0.0.10", "10.0.0.11")
    hosts.preflight(settings, None)
    hosts.variables(settings, Record(id="1a2b3c4d", config={}))
    assert len((tmp_path / "asked").read_text().splitlines()) == 4  # each for what ssh makes of it, and for its facts


def test_the_first_is_the_head_and_what_hosts_say_describes_the_nodes(say: Say) -> None:
    say("10.0.0.10")
    say("10.0.0.11", gpus=4)
    say("10.0.0.12")
    variables = record(config("10.0.0.10", "guest@10.0.0.11", "10.0.0.12", nodes=2)).variables["hosts"]
    assert [(m["name"], m["role"], m["id"], m["gpus"], m["private_address"]) for m in variables["machines"]] == [
        ("demo-head", "head", "id-of-10.0.0.10", 0, "10.0.0.10"),
        ("demo-worker-0", "worker", "id-of-10.0.0.11", 4, "10.0.0.11"),
    ]


def test_gpus_are_those_of_the_first_host_that_has_any(say: Say) -> None:
    say("10.0.0.10")
    say("10.0.0.11", "gpu NVIDIA A100-SXM4-40GB", gpus=4)
    settings = config("10.0.0.10", "10.0.0.11")
    hosts.preflight(settings, None)
    assert hosts.gpu_and_image(settings, None) == ("NVIDIA A100-SXM4-40GB", "debian 12")
    alone = config("10.0.0.10")
    hosts.preflight(alone, None)
    assert hosts.gpu_and_image(alone, None) == (None, "debian 12")


def test_a_host_that_is_down_is_left_out_where_the_others_are_enough_and_is_not_the_head(say: Say) -> None:
    say("10.0.0.10")
    say("10.0.0.12")
    settings = config("10.0.0.10", "10.0.0.11", "10.0.0.12", min_nodes=2)
    hosts.preflight(settings, None)
    down = hosts.variables(settings, Record(id="1", config={}))["machines"][1]
    assert "Connection refused" in down["problem"]
    for refused in (config("10.0.0.11", "10.0.0.10", min_nodes=1), config("10.0.0.10", "10.0.0.11", min_nodes=2)):
        with pytest.raises(PreflightError, match=r"10\.0\.0\.11 cannot be reached"):
            hosts.preflight(refused, None)


def test_a_former_node_is_leaving_until_it_has_nothing_of_ours(say: Say) -> None:
    say("10.0.0.10", *marked())
    say("10.0.0.11", *marked(node="demo-worker-0"))
    both = record(config("10.0.0.10", "10.0.0.11"))
    less = record(config("10.0.0.10"), both)
    assert [machine["id"] for machine in less.variables["hosts"]["leaving"]] == ["id-of-10.0.0.11"]
    still = record(config("10.0.0.10"), less)
    assert still.variables["hosts"]["leaving"] == less.variables["hosts"]["leaving"]
    say("10.0.0.11")
    assert record(config("10.0.0.10"), still).variables["hosts"]["leaving"] == []


def test_a_node_under_another_name_of_the_same_host_is_not_leaving(say: Say) -> None:
    say("10.0.0.10")
    before = record(config("10.0.0.10"))
    assert record(config("lab@10.0.0.10"), before).variables["hosts"]["leaving"] == []


def test_a_survey_has_hosts_with_our_mark_and_those_that_do_not_answer(say: Say, tmp_path: Path) -> None:
    for host in ("10.0.0.10", "10.0.0.11", "10.0.0.12"):
        say(host)
    deployed = record(config("10.0.0.10", "10.0.0.11", "guest@10.0.0.12"))
    assert hosts.list_resources(deployed) == []
    say("10.0.0.10", *marked())
    say("10.0.0.11", *marked("another"))
    (tmp_path / "10.0.0.12").unlink()
    resources = [(str(resource), resource.usable) for resource in hosts.list_resources(deployed)]
    assert resources == [("host 10.0.0.10 (demo-head)", True), ("host guest@10.0.0.12 (demo-worker-1)", False)]


def test_a_host_that_was_never_seen_is_nothing_that_could_be_left(say: Say) -> None:
    say("10.0.0.10")
    assert hosts.list_resources(record(config("10.0.0.10", "10.0.0.11", min_nodes=1))) == []
    assert hosts.list_resources(Record(id="1a2b3c4d", config={})) == []


def test_strangers_are_hosts_that_carry_the_name_of_whatever_deployment(say: Say) -> None:
    say("10.0.0.10", *marked("another"))
    say("10.0.0.11")
    assert [
        str(resource) for resource in hosts.unowned_resources(config("10.0.0.10", "10.0.0.11", "10.0.0.12", nodes=1))
    ] == ["host 10.0.0.10 (demo-head)"]
    assert hosts.unowned_resources(Config(name="demo", provider="hosts")) == []


def test_a_host_that_refuses_is_named_with_what_it_says(say: Say, tmp_path: Path) -> None:
    say("10.0.0.10")
    say("10.0.0.11")
    (tmp_path / "10.0.0.11.refuses").touch()
    with pytest.raises(NodesFailed) as caught:
        hosts.provision(state.for_cluster("demo"), record(config("10.0.0.10", "10.0.0.11")), [], lambda line: None)
    assert caught.value.reasons == {"demo-worker-0": "no, never"}
    lines = [base64.b64decode(line.split()[1]).decode() for line in (tmp_path / "as-root").read_text().splitlines()]
    assert all("cluster=demo\nid=1a2b3c4d\n" in text and "key='ssh-ed25519 AAAA'\n" in text for text in lines)
    assert all("uid=700\ngid=700\n" in text for text in lines)


def test_a_key_that_is_not_there_is_a_finding_by_itself(say: Say) -> None:
    with pytest.raises(PreflightError, match=r"hosts\.identity: no-such-key: no such file"):
        hosts.preflight(config(hosts={"addresses": ["10.0.0.10"], "identity": "no-such-key"}), None)


def test_a_login_has_what_the_user_gave_and_leaves_the_rest_to_their_ssh() -> None:
    values = {"addresses": ["10.0.0.10", "guest@10.0.0.11:2222"], "identity": "/keys/a", "jump": "gate@10.0.0.10:2022"}
    settings = config(hosts=values)
    first, second = (login.of(settings, host) for host in settings.hosts.addresses)
    only = ["-o", "IdentitiesOnly=yes"]
    assert first.words == ["-i", "/keys/a", *only, "10.0.0.10"]  # the way to the others
    assert second.words == ["-i", "/keys/a", "-J", "gate@10.0.0.10:2022", "-p", "2222", *only, "guest@10.0.0.11"]
    assert str(second) == "guest@10.0.0.11:2222"


def test_of_all_that_ssh_says_the_first_and_the_last_tell_why(stand_in: StandIn) -> None:
    stand_in("ssh", "printf '@@@@\\n@ WARNING @\\none\\ntwo\\nthree\\n' >&2; exit 255")
    with pytest.raises(Unreachable, match=r"^@ WARNING @; three$"):
        login.run(login.Login(address="10.0.0.10"), "survey.sh")


def test_any_machine_says_the_facts_that_are_wanted(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is this one, asked by a shell in place of ssh."""
    path = os.environ["PATH"]
    stand_in("ssh", 'for word; do :; done; exec /bin/sh -c "$word"')
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], path]))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.10 2222")
    host_facts = hosts_survey.survey_host(login.Login(address="10.0.0.10"))
    assert host_facts.architecture == os.uname().machine
    assert host_facts.cpus == len(os.sched_getaffinity(0))
    assert (host_facts.reached_at, host_facts.listens_on) == ("10.0.0.10", 2222)
    assert os.getuid() in host_facts.ids
    assert len(host_facts.id) == 16


@pytest.mark.parametrize("script", sorted(path.name for path in Path(hosts.__file__).parent.glob("*.sh")))
def test_scripts_are_plain_shell(script: str) -> None:
    for shell in filter(None, (shutil.which(name) for name in ("dash", "bash"))):
        subprocess.run([shell, "-n", Path(hosts.__file__).with_name(script)], check=True)
