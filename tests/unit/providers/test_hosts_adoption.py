"""The home directory that adopt.sh gives the account, also if /home cannot have it, and its trainer container."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment

from orchestrator import packaged_files
from orchestrator.providers import hosts

# Programs that only root can run. Accounts are in the file passwd.
STAND_INS = {
    "getent": 'grep "^$2:" {here}/passwd',
    "useradd": """
while [ $# != 1 ]; do if [ "$1" = --home-dir ]; then home=$2; fi; shift; done
echo "$1:x:700:700::$home:/bin/bash" >> {here}/passwd; mkdir "$home" """,
    "install": 'for directory; do :; done; mkdir "$directory"',
    "id": "echo 700",
    **dict.fromkeys(("chown", "groupadd", "sudo", "visudo"), ""),
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a machine without /home and without the account."""
    for directory in ("bin", "etc/sudoers.d", "var/lib"):
        (tmp_path / directory).mkdir(parents=True)
    for name, text in STAND_INS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{text.replace('{here}', str(tmp_path))}\n")
        program.chmod(0o755)
    (tmp_path / "passwd").touch()
    return tmp_path


def adopt(machine: Path) -> subprocess.CompletedProcess[str]:
    """Run adopt.sh with the machine's programs and directories."""
    script = Path(hosts.__file__).with_name("adopt.sh").read_text()
    script = script.replace("PATH=/", f"PATH={machine}/bin:/")
    for path in ("/etc/orchestrator", "/etc/sudoers.d", "/home", "/var/lib/"):
        script = script.replace(f"={path}", f"={machine}{path}").replace(f" {path}", f" {machine}{path}")
    given = {"cluster": "demo", "id": "1a2b3c4d", "node": "demo-head", "by": "lab@desk", "key": "ssh-ed25519 AAAA"}
    variables = {**os.environ, **given, "uid": "700", "gid": "700"}
    return subprocess.run(["sh", "-c", script], env=variables, check=False, capture_output=True, text=True)


def home(machine: Path) -> Path:
    return Path((machine / "passwd").read_text().split(":")[5])


def test_home_is_in_the_real_directory_of_home(machine: Path) -> None:
    (machine / "data").mkdir()
    (machine / "home").symlink_to("data")
    assert (adopt(machine).returncode, adopt(machine).stdout) == (0, "")
    assert home(machine) == machine / "data" / "orchestrator"
    assert list((machine / "data").iterdir()) == [home(machine)]
    assert (home(machine) / ".ssh" / "authorized_keys").read_text() == "ssh-ed25519 AAAA orchestrator:demo:1a2b3c4d\n"


@pytest.mark.parametrize("refused", ["mkdir", "chown"])
def test_home_is_on_the_local_disk_if_root_cannot_own_one_in_home(machine: Path, refused: str) -> None:
    """As with an automounted /home, and with NFS that maps root to another account."""
    if refused == "chown":
        (machine / "home").mkdir()
        (machine / "bin" / "chown").write_text("#!/bin/sh\ncase $2 in */home/*) exit 1 ;; esac\n")
    adopted = adopt(machine)
    assert adopted.returncode == 0, adopted.stderr
    assert home(machine) == machine / "var" / "lib" / "orchestrator-home"
    assert "\nhome made\n" in (machine / "etc" / "orchestrator" / "deployment").read_text()
    assert not list(machine.glob("home/*"))


def test_existing_account_without_a_possible_home_has_a_remedy(machine: Path) -> None:
    (machine / "passwd").write_text(f"orchestrator:x:700:700::{machine}/home/orchestrator:/bin/bash\n")
    adopted = adopt(machine)
    assert adopted.returncode == 1
    message = adopted.stderr.splitlines()[-1]
    assert f"root cannot write the key of account orchestrator to {machine}/home/orchestrator/.ssh" in message
    command = message.split("`")[1]
    assert command.startswith("sudo usermod --home ")
    other = shlex.split(command)[3]
    (machine / "passwd").write_text(f"orchestrator:x:700:700::{other}:/bin/bash\n")
    assert adopt(machine).returncode == 0


@pytest.mark.parametrize(("home", "mounted"), [("/home/orchestrator", False), ("/var/lib/orchestrator-home", True)])
def test_trainer_container_has_the_home_of_the_account(home: str, mounted: bool) -> None:
    unit = packaged_files.directory("ansible") / "roles" / "trainer_container" / "templates" / "trainer.service.j2"
    template = Environment(trim_blocks=True).from_string(unit.read_text())  # noqa: S701
    text = template.render(current_configuration_of_node={"home": home})
    assert "--volume /home:/home \\\n" in text
    assert (f"  --volume {home}:{home} \\\n" in text) == mounted
