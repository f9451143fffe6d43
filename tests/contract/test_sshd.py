"""sshd of a node, as the role node configures it and sshd itself understands it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import Environment

from orchestrator import packaged_files
from tests.contract.conftest import Said

TEMPLATE = packaged_files.directory("ansible") / "roles" / "node" / "templates" / "sshd.j2"
STRICT = {"allowusers orchestrator", "maxauthtries 3", "logingracetime 60", "passwordauthentication no"}


def block(**variables: object) -> str:
    """What the role writes."""
    template = Environment(trim_blocks=True).from_string(TEMPLATE.read_text())  # noqa: S701
    return template.render(ansible_user="orchestrator", **variables)


@pytest.mark.parametrize(("stay", "strict"), [(False, STRICT), (True, set[str]())])
def test_sshd_lets_one_account_in_where_the_machine_is_ours(
    in_image: Callable[..., Said], tmp_path: Path, stay: bool, strict: set[str]
) -> None:
    (tmp_path / "sshd_config").write_text(block(machines_stay=stay))
    shell = "mkdir -p /run/sshd && ssh-keygen -A > /dev/null && /usr/sbin/sshd -T -f /srv/sshd_config"
    result = in_image(["sh", "-c", shell], {tmp_path / "sshd_config": "/srv/sshd_config"})
    assert result.code == 0, result.text
    assert STRICT & set(result.text.splitlines()) == strict
    assert "clientaliveinterval 10" in result.text.splitlines()
