"""Shell commands of roles that keep what the owner of a machine has configured."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

from orchestrator import packaged_files

ROLES = packaged_files.directory("ansible") / "roles"
REPOSITORY = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /"


def program(machine: Path, name: str, text: str) -> None:
    path = machine / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def exit_code(machine: Path, tasks: str, number: int, **variables: str) -> int:
    """Run the shell command of a task with the programs and directories of a machine."""
    command = yaml.safe_load((ROLES / tasks).read_text())[number]["ansible.builtin.shell"]
    environment = Environment()  # noqa: S701
    environment.filters |= {"dirname": os.path.dirname, "quote": shlex.quote}
    text = environment.from_string(command).render(variables).replace("/etc/", f"{machine}/etc/")
    path = f"{machine / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(["sh", "-c", text], env={**os.environ, "PATH": path}, check=False).returncode


@pytest.mark.parametrize(
    ("candidate", "source", "known"),
    [
        ("(none)", "", False),
        ("1.17.4-1", "", True),
        ("(none)", f"deb [signed-by=/usr/share/keyrings/of-the-owner.gpg] {REPOSITORY}", True),
        ("(none)", f"# deb {REPOSITORY} # disabled on upgrade to noble", False),
    ],
)
def test_repository_of_the_toolkit_is_not_added_twice(tmp_path: Path, candidate: str, source: str, known: bool) -> None:
    program(tmp_path, "apt-cache", f"echo '  Candidate: {candidate}'")
    (tmp_path / "etc" / "apt" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "etc" / "apt" / "sources.list.d" / "nvidia-container-toolkit.list").write_text(f"{source}\n")
    assert (exit_code(tmp_path, "nvidia/tasks/toolkit.yml", 0) == 0) == known


@pytest.mark.parametrize(
    ("files", "others"),
    [
        ({}, False),
        ({"exports": "# /srv/homes  host(rw)\n", "exports.d/orchestrator.exports": "/shared 10.0.0.11(rw)\n"}, False),
        ({"exports": "# homes\n/home 10.0.0.0/24(rw)\n"}, True),
        ({"exports.d/zfs.exports": "/tank *(rw)\n"}, True),
    ],
)
def test_exports_of_the_owner_are_found(tmp_path: Path, files: dict[str, str], others: bool) -> None:
    (tmp_path / "etc" / "exports.d").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "etc" / name).write_text(text)
    assert (exit_code(tmp_path, "nfs/tasks/server.yml", 0) == 0) == others


@pytest.fixture
def record(tmp_path: Path) -> dict[str, str]:
    """Return the role's variable on a node with staged data."""
    (tmp_path / "lib" / "data" / "mnist").mkdir(parents=True)
    (tmp_path / "lib" / "configured").touch()
    return {"current_configuration_record": f"{tmp_path}/lib/configured"}


@pytest.mark.parametrize(("mounted", "left"), [(True, False), (False, True)])
def test_mounted_directory_of_the_node_is_kept(
    tmp_path: Path, record: dict[str, str], mounted: bool, left: bool
) -> None:
    (tmp_path / "lib" / "of-the-owner").touch()
    program(tmp_path, "mountpoint", f"exit {0 if mounted else 32}")
    assert (exit_code(tmp_path, "current_configuration/tasks/absent.yml", 0, **record) != 0) == left
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["of-the-owner"]


def test_directory_of_the_node_is_removed(tmp_path: Path, record: dict[str, str]) -> None:
    assert exit_code(tmp_path, "current_configuration/tasks/absent.yml", 0, **record) == 0
    assert not (tmp_path / "lib").exists()


OF_ANSIBLE = "#!/bin/sh\nexit 101\n"  # written by the module apt for policy_rc_d: 101


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Return the path of policy-rc.d on a machine whose owner has none."""
    program(tmp_path, "apt-get", "exit 0")
    (tmp_path / "usr" / "sbin").mkdir(parents=True)
    return tmp_path / "usr" / "sbin" / "policy-rc.d"


def run_scripts(machine: Path, *names: str) -> None:
    text = "\n".join((ROLES / "operating_system" / "files" / f"{name}_service_policy.sh").read_text() for name in names)
    text = text.replace("/usr/sbin/", f"{machine}/usr/sbin/").replace("/var/lib/", f"{machine}/lib/")
    path = f"{machine / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", text], env={**os.environ, "PATH": path}, check=True)


def set_policy(path: Path, text: str | None) -> None:
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)


@pytest.mark.parametrize("next_command", [["restore"], ["restore", "save"]], ids=["teardown", "deploy"])
@pytest.mark.parametrize("left", [OF_ANSIBLE, "", None], ids=["written", "empty", "moved away"])
@pytest.mark.parametrize("own", [None, "#!/bin/sh\nexit 104\n", OF_ANSIBLE], ids=["none", "allows", "forbids"])
def test_policy_for_services_is_restored_after_an_interrupted_deploy(
    tmp_path: Path, policy: Path, own: str | None, left: str | None, next_command: list[str]
) -> None:
    set_policy(policy, own)
    run_scripts(tmp_path, "restore", "save")
    set_policy(policy, left)
    run_scripts(tmp_path, *next_command)
    assert (policy.read_text() if policy.exists() else None) == own
    assert own is None or os.access(policy, os.X_OK)
    assert (tmp_path / "lib" / "orchestrator" / "policy-rc.d").exists() == ("save" in next_command)


def test_policy_that_the_owner_changed_later_stays(tmp_path: Path, policy: Path) -> None:
    run_scripts(tmp_path, "restore", "save")
    set_policy(policy, "#!/bin/sh\nexit 104\n")
    run_scripts(tmp_path, "restore")
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_policy_without_an_interrupted_deploy_stays(tmp_path: Path, policy: Path) -> None:
    set_policy(policy, OF_ANSIBLE)
    run_scripts(tmp_path, "restore")
    assert policy.read_text() == OF_ANSIBLE
