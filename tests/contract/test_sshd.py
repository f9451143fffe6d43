"""sshd's effective settings on a node that the role node configured."""

from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment

from orchestrator import packaged_files
from tests.contract.conftest import ProgramResult

TEMPLATE = packaged_files.directory("ansible") / "roles" / "node" / "templates" / "sshd_config.j2"
STRICT = {"allowusers orchestrator", "maxauthtries 3", "logingracetime 60", "passwordauthentication no"}
LIVENESS = {"clientaliveinterval 10", "clientalivecountmax 3"}
MARK = "acceptenv ORCHESTRATOR_RUN"

InImage = Callable[..., ProgramResult]


def effective_settings(in_image: InImage, directory: Path, stay: bool, user: str) -> set[str]:
    """Return sshd's settings for a login of ``user``, with the role's file among those that sshd_config includes."""
    template = Environment(trim_blocks=True).from_string(TEMPLATE.read_text())  # noqa: S701
    (directory / "drop_in").write_text(template.render(ansible_user="orchestrator", machines_stay=stay))
    path = "/etc/ssh/sshd_config.d/60-orchestrator.conf"
    sshd = f"/usr/sbin/sshd -t -f {path} && /usr/sbin/sshd -T -C user={user},host=h,addr=10.0.0.1"
    result = in_image(
        ["sh", "-c", f"mkdir -p /run/sshd && ssh-keygen -A > /dev/null && {sshd}"], {directory / "drop_in": path}
    )
    assert result.code == 0, result.text
    return set(result.text.splitlines())


def test_sshd_accepts_one_account_on_dedicated_machines(in_image: InImage, tmp_path: Path) -> None:
    settings = effective_settings(in_image, tmp_path, stay=False, user="orchestrator")
    assert settings >= STRICT | LIVENESS | {"maxstartups 100:30:100", MARK, "acceptenv LANG"}


def test_sshd_on_own_hosts_changes_for_the_account_only(in_image: InImage, tmp_path: Path) -> None:
    account = effective_settings(in_image, tmp_path, stay=True, user="orchestrator")
    assert account >= LIVENESS | {MARK, "acceptenv LANG", "acceptenv LC_*"}
    assert not account & STRICT
    other = effective_settings(in_image, tmp_path, stay=True, user="other")
    assert other >= {"clientaliveinterval 0", "maxstartups 10:30:100", "acceptenv LANG", "x11forwarding yes"}
    assert not other & (STRICT | {MARK})
