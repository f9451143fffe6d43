"""sshd's effective settings on a node that the role node configured."""

from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import Environment

from orchestrator import packaged_files
from tests.contract.conftest import ProgramResult

TEMPLATE = packaged_files.directory("ansible") / "roles" / "node" / "templates" / "sshd_config.j2"
STRICT = {"allowusers orchestrator", "maxauthtries 3", "logingracetime 60", "passwordauthentication no"}


def block(**variables: object) -> str:
    """Render the configuration that the role writes."""
    template = Environment(trim_blocks=True).from_string(TEMPLATE.read_text())  # noqa: S701
    return template.render(ansible_user="orchestrator", **variables)


@pytest.mark.parametrize(("stay", "strict"), [(False, STRICT), (True, set[str]())])
def test_sshd_accepts_one_account_on_dedicated_machines(
    in_image: Callable[..., ProgramResult], tmp_path: Path, stay: bool, strict: set[str]
) -> None:
    (tmp_path / "sshd_config").write_text(block(machines_stay=stay))
    shell = "mkdir -p /run/sshd && ssh-keygen -A > /dev/null && /usr/sbin/sshd -T -f /srv/sshd_config"
    result = in_image(["sh", "-c", shell], {tmp_path / "sshd_config": "/srv/sshd_config"})
    assert result.code == 0, result.text
    assert STRICT & set(result.text.splitlines()) == strict
    assert "clientaliveinterval 10" in result.text.splitlines()
