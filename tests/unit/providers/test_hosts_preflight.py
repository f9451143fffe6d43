"""Requirements on a host of the provider `hosts`, and the remedies for a host that lacks one."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.config import Config
from orchestrator.errors import PreflightError
from orchestrator.providers import hosts
from orchestrator.providers.hosts import preflight_checks, survey_answers
from orchestrator.providers.hosts.login import Login, Resolved
from orchestrator.providers.hosts.survey_answers import HostSurvey, SurveyedHost

OURS = "1a2b3c4d"


def config(**hosts: Any) -> Config:
    return Config.model_validate({"name": "demo", "provider": "hosts", "hosts": {"addresses": ["10.0.0.10"], **hosts}})


def survey(**changes: Any) -> HostSurvey:
    """Return the survey of a fresh Debian that can be a node."""
    values = {
        "system": "debian 12",
        "architecture": "x86_64",
        "id": "id-of-10",
        "boot": "first",
        "cpus": 8,
        "gpus": 0,
        "connection": "10.0.0.1 50000 10.0.0.10 22",
        "addresses": "10.0.0.10 192.168.7.10",
        "ids": "0 1 1000",
        "sudo": "yes",
    }
    return HostSurvey.model_validate(values | changes)


def host(name: str = "demo-head", private_address: str | None = None, **changes: Any) -> SurveyedHost:
    resolved = Resolved(hostname="10.0.0.10", user="lab", port=22)
    return SurveyedHost(name, Login(address="10.0.0.10", user="lab"), private_address, resolved, survey(**changes))


def problems_of(surveyed: SurveyedHost, settings: Config | None = None) -> list[str]:
    [found] = preflight_checks.problems([surveyed], settings or config(), OURS)
    return [finding.message for finding in found]


def test_fresh_host_meets_the_requirements() -> None:
    assert problems_of(host()) == []
    assert problems_of(host(private_address="192.168.7.10")) == []
    assert host().address == "10.0.0.10"


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"sudo": "sudo: a password is required"}, "sudo does not work without a password: sudo: a pass", "NOPASSWD"),
        ({"architecture": "aarch64"}, "its architecture is aarch64", "x86_64 is needed"),
        ({"system": "fedora 43"}, "its system is fedora 43", "ubuntu 24.04"),
        ({"system": " "}, "its system is unknown", "ubuntu 24.04"),
        ({"account": "orchestrator:x:1000:1000::/home/o:/bin/bash"}, "cannot sudo without a password", "NOPASSWD"),
        (
            {"account": "orchestrator:x:9:9::/:/usr/sbin/nologin", "account_sudo": "yes"},
            "has the shell /usr/sbin/nologin",
            "usermod --shell",
        ),
        (
            {"mark_id": "another", "mark_cluster": "lab", "mark_by": "user@desk"},
            "it is a node of cluster 'lab' (deployment another, by user@desk)",
            "`orchestrator teardown --cluster lab` on the machine that deployed it",
        ),
        ({"connection": "::1 50000 fd00::10 22"}, "its private address 'fd00::10' is no IPv4", "set `private_address`"),
        (
            {"addresses": "10.0.0.11 10.1.0.11"},
            "10.0.0.10 is on none of its interfaces, or not the first there (10.0.0.11, 10.1.0.11)",
            "set `pri",
        ),
        ({"connection": "10.0.0.1 50000 10.0.0.10 2022"}, "port 22 leads to its port 2022", "hosts.jump"),
        ({"python": "none"}, "it has no /usr/bin/python3, which Ansible needs", "apt-get install --yes python3"),
        ({"docker_snap": "yes"}, "its Docker is a snap, which `deploy` cannot use", "`sudo snap remove docker`"),
        ({"shared": 3}, "its /shared is not empty", "hosts.storage: mounted"),
        (
            {"image_room": 5 << 20},
            "5.0 GiB are free for /var/lib/orchestrator, the trainer's image needs 6 GiB",
            "sudo mount",
        ),
        (
            {"image_room": 15 << 20, "gpus": 1},
            "15.0 GiB are free for /var/lib/orchestrator, the trainer's",
            "sudo mount",
        ),
        (
            {"shared": 0, "real_shared": "/nfs/lab"},
            "its /shared is a link to /nfs/lab, which does not exist in the trainer container",
            "echo '/nfs/lab /shared none bind,_netdev 0 0' | sudo tee -a /etc/fstab && sudo mount /shared`",
        ),
        (
            {
                "account": "orchestrator:x:9:9::/home/o:/bin/bash",
                "real_home": "/data/home/o",
                "account_sudo": "yes",
            },
            "the home directory /home/o of its account orchestrator is in /data/home/o, which does not exist in the tr",
            "`sudo usermod --home /data/home/o orchestrator`",
        ),
    ],
)
def test_unmet_requirement_is_reported_with_its_remedy(changes: dict[str, Any], problem: str, remedy: str) -> None:
    [[finding]] = preflight_checks.problems([host(**changes)], config(), OURS)
    assert finding.message.startswith("hosts.addresses: lab@10.0.0.10: ")
    assert problem in finding.message
    assert remedy in finding.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"mark_id": OURS, "mark_cluster": "demo", "shared": 3},
        {"account": "orchestrator:x:700:700::/home/orchestrator:/bin/bash", "account_sudo": "yes"},
        {"shared": 0, "real_shared": "/shared"},
        {"image_room": 6 << 20},
        {"image_room": 16 << 20, "gpus": 1},
        {
            "account": "orchestrator:x:700:700::/srv/o:/bin/bash",
            "real_home": "/srv/o",
            "account_sudo": "yes",
        },
    ],
)
def test_own_files_and_useful_programs_are_accepted(changes: dict[str, Any]) -> None:
    assert problems_of(host(**changes)) == []


def test_file_of_the_sudo_right_has_no_dot_in_its_name() -> None:
    """Sudo ignores such files."""
    surveyed = host(sudo="sudo: a password is required")
    dotted = replace(surveyed, resolved=Resolved(hostname="10.0.0.10", user="jane.doe", port=22))
    [[finding]] = preflight_checks.problems([dotted], config(), OURS)
    assert finding.hint == "there: `echo 'jane.doe ALL=(ALL) NOPASSWD: ALL' | sudo tee -a /etc/sudoers.d/jane_doe`"


def test_links_are_accepted_without_a_trainer_container() -> None:
    links = {"real_shared": "/nfs/lab", "real_home": "/data/home/orchestrator", "account_sudo": "yes"}
    linked = host(account=account(700), shared=3, trainer="yes", **links)
    assert problems_of(linked, config(storage="mounted", trainer="installed")) == []
    assert len(problems_of(linked, config(storage="mounted"))) == 2


@pytest.mark.parametrize(("directory", "measured"), [("orchestrator", 1), ("orchestrator/trainer/image", 0)])
def test_survey_measures_free_space_unless_the_image_is_unpacked(tmp_path: Path, directory: str, measured: int) -> None:
    (tmp_path / directory).mkdir(parents=True)
    script = Path(hosts.__file__).with_name("survey.sh").read_text().replace("/var/lib", str(tmp_path))
    ran = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    assert len(re.findall(r"^survey image_room \d+$", ran.stdout, re.MULTILINE)) == measured


def test_free_space_is_not_needed_without_a_trainer_container() -> None:
    assert problems_of(host(image_room=1, trainer="yes"), config(trainer="installed")) == []


def test_docker_as_a_snap_is_accepted_without_a_trainer_container() -> None:
    assert problems_of(host(docker_snap="yes", trainer="yes"), config(trainer="installed")) == []


def test_mounted_storage_and_trainer_allow_any_system() -> None:
    prepared = config(storage="mounted", trainer="installed")
    assert problems_of(host(system="fedora 43", shared=3, trainer="yes"), prepared) == []
    assert [text.split(": ")[-1] for text in problems_of(host(system="fedora 43"), prepared)] == [
        "it has no /shared",
        "it has no /opt/orchestrator/bin/python",
    ]


def test_mounted_storage_of_another_deployment_is_refused_with_its_cluster() -> None:
    mounted = config(storage="mounted")
    used: dict[str, Any] = {"shared": 3, "shared_cluster": "lab", "shared_id": "another"}
    [[finding]] = preflight_checks.problems([host(**used)], mounted, OURS)
    assert "its /shared is in use by cluster 'lab' (deployment another)" in finding.message
    assert "`orchestrator teardown --cluster lab` first" in finding.hint
    assert "`sudo rm /shared/.orchestrator-deployment`" in finding.hint
    assert problems_of(host(shared=3, shared_cluster="demo", shared_id=OURS), mounted) == []
    node = problems_of(host(**used, mark_id="another", mark_cluster="lab"), mounted)
    assert ["it is a node of cluster 'lab'" in text for text in node] == [True]


def test_head_may_have_files_that_a_teardown_kept() -> None:
    assert problems_of(host(shared=2, shared_kept="yes")) == []
    assert ["/shared is not empty" in text for text in problems_of(host(shared=2))] == [True]
    worker = problems_of(host("demo-worker-0", shared=2, shared_kept="yes"))
    assert ["/shared is not empty" in text for text in worker] == [True]


def test_account_of_the_tool_cannot_be_the_login() -> None:
    account = {"account": "orchestrator:x:700:700::/home/o:/bin/bash", "account_sudo": "yes"}
    adopted = host(**account, mark_id=OURS, mark_account="made")
    own_account = SurveyedHost(
        adopted.name, adopted.login, None, Resolved(hostname="10.0.0.10", user="orchestrator", port=22), adopted.survey
    )
    assert "account orchestrator is removed at teardown" in problems_of(own_account)[0]
    assert problems_of(adopted) == []


def test_route_known_only_to_the_users_ssh_is_refused() -> None:
    resolved = Resolved(hostname="10.0.0.10", user="lab", port=22, proxy="gateway")
    behind = SurveyedHost("demo-head", Login(address="inner"), None, resolved, survey())
    [[finding]] = preflight_checks.problems([behind], config(), OURS)
    assert "through `gateway`" in finding.message
    assert "hosts.jump" in finding.hint


def test_host_without_gpus_needs_room_for_the_image_of_the_others() -> None:
    surveyed = [host(image_room=15 << 20), host("demo-worker-0", gpus=1)]
    [[finding], none] = preflight_checks.problems(surveyed, config(), OURS)
    assert "the trainer's image needs 16 GiB" in finding.message
    assert none == []
    without_driver = Config.model_validate(config().model_dump() | {"gpu": {"driver": "none"}})
    assert preflight_checks.problems(surveyed, without_driver, OURS) == [[], []]


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("Permission denied (publickey).", "`ssh -p 2222 lab@10.0.0.10 true` must work without a prompt"),
        ("Host key verification failed.", "typed in a terminal, shows its host key"),
    ],
)
def test_refused_login_is_named_with_remedies(reason: str, remedy: str) -> None:
    login = Login(address="10.0.0.10", user="lab", port=2222)
    unreachable = SurveyedHost("demo-head", login, None, reason=reason)
    [[finding]] = preflight_checks.problems([unreachable], config(), OURS)
    assert finding.message == f"hosts.addresses: lab@10.0.0.10:2222 cannot be reached: {reason}"
    assert remedy in finding.hint


def test_duplicate_machines_and_addresses_are_found() -> None:
    same = preflight_checks.conflicts([host(), host("demo-worker-0")])
    assert ["are the same machine" in finding.message for finding in same] == [True]
    clones = preflight_checks.conflicts([host(), host("demo-worker-0", boot="second")])
    assert ["have the same private address 10.0.0.10" in finding.message for finding in clones] == [True]
    other_host = host("demo-worker-0", private_address="192.168.7.10", id="id-of-11")
    assert preflight_checks.conflicts([host(), other_host]) == []


def account(number: int) -> str:
    return f"orchestrator:x:{number}:{number}::/home/orchestrator:/bin/bash"


def test_account_has_one_uid_on_all_hosts() -> None:
    assert survey_answers.account_id([host(), host("demo-worker-0")]) == (700, 700)
    assert survey_answers.account_id([host(ids="700 701"), host("demo-worker-0", ids="702")]) == (703, 703)
    assert survey_answers.account_id([host(account=account(1000), ids="1000"), host("demo-worker-0", ids="0")]) == (
        1000,
        1000,
    )


def test_hosts_without_a_common_uid_are_named() -> None:
    with pytest.raises(PreflightError, match="1000:1000 on demo-head, 1001:1001 on demo-worker-0"):
        survey_answers.account_id([host(account=account(1000)), host("demo-worker-0", account=account(1001))])
    with pytest.raises(PreflightError, match="1000:1000 is account orchestrator on demo-head and another on demo-wor"):
        survey_answers.account_id([host(account=account(1000)), host("demo-worker-0", ids="0 1000")])


@pytest.mark.parametrize(
    "answer",
    [
        {"connection": "10.0.0.1 50000 {{lookup('pipe','id>/tmp/x')}} 22"},
        {"addresses": "10.0.0.1 {{lookup('pipe','id')}}"},
        {"mark_node": "{{lookup('pipe','id')}}-head"},
        {"mark_node": "demo-worker-[0:9]"},
    ],
)
def test_template_in_an_address_or_a_name_gives_no_survey(answer: dict[str, str]) -> None:
    """Ansible would evaluate it on this machine."""
    with pytest.raises(ValidationError, match="pattern"):
        survey(**answer)
