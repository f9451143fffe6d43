"""The role node: the PATH of login shells, and shared memory of runs."""

import getpass
import re
import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment

from orchestrator import packaged_files

TEMPLATE = packaged_files.directory("ansible") / "roles" / "node" / "templates" / "profile.sh.j2"


@pytest.mark.parametrize(("account", "path"), [(getpass.getuser(), "/opt/orchestrator/bin:"), ("someone-else", "")])
def test_only_the_cluster_account_finds_the_trainer_first(tmp_path: Path, account: str, path: str) -> None:
    template = Environment(trim_blocks=True).from_string(TEMPLATE.read_text())  # noqa: S701
    (tmp_path / "profile.sh").write_text(template.render(ansible_user=account))
    shell = ["/bin/sh", "-euc", '. "$1"; echo "$PATH"', "sh", str(tmp_path / "profile.sh")]
    shown = subprocess.run(shell, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert shown.stdout == f"{path}/usr/bin:/bin\n"


LINGER = re.compile(r"\{% if not machines_stay.*?enable-linger.*?\{% endif %\}\n", re.DOTALL)


@pytest.mark.parametrize(
    ("machines_stay", "logind", "called"),
    [(False, "exit 0", "enable-linger someone\n"), (False, "exit 3", ""), (True, "exit 0", "")],
    ids=["cloud", "without logind", "own hosts"],
)
def test_logind_keeps_shared_memory_of_runs(tmp_path: Path, machines_stay: bool, logind: str, called: str) -> None:
    """On clouds; accounts that a deploy makes on hosts are system accounts, whose shared memory logind keeps."""
    script = TEMPLATE.with_name("write_files.sh.j2").read_text()
    (block,) = LINGER.findall(script)
    template = Environment(trim_blocks=True).from_string(block.replace("| quote", ""))  # noqa: S701
    rendered = template.render(machines_stay=machines_stay, ansible_user="someone")
    for name, line in (("systemctl", logind), ("loginctl", f'echo "$@" > {tmp_path}/called')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "changed": f"{tmp_path}/changed"}
    subprocess.run(["/bin/sh", "-euc", rendered], env=environment, check=True)
    seen = tmp_path / "called"
    assert (seen.read_text() if seen.exists() else "") == called
