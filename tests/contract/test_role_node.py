"""The role node: the PATH of login shells."""

import getpass
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
