"""A password stored on this machine: generated or given, private, and deleted with its service."""

from pathlib import Path

import pytest

from orchestrator.errors import NodesFailed, StateError
from orchestrator.services import password_file
from orchestrator.services.password_file import Secret

GIVEN = "correct horse battery"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret.json"


def deploy(path: Path, wanted: bool = True, given: str | None = None, fails: bool = False) -> None:
    """Provision a password like a deploy."""
    with password_file.provision_password(path, Secret, wanted, given):
        if fails:
            raise NodesFailed("configuration failed", {"default-head": "no"})


def stored(path: Path) -> str:
    secret = password_file.read(path, Secret)
    assert secret is not None
    return secret.password


def test_generated_password_is_stored_with_private_mode(path: Path) -> None:
    deploy(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(stored(path)) >= 20


def test_generated_passwords_differ(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    deploy(first)
    deploy(second)
    assert stored(first) != stored(second)


@pytest.mark.parametrize("password_option", [None, GIVEN])
def test_second_deploy_keeps_the_password(path: Path, password_option: str | None) -> None:
    deploy(path, given=password_option)
    before = path.read_bytes()
    for again in (password_option, None):  # also if cluster.yaml is missing
        deploy(path, given=again)
        assert path.read_bytes() == before


def test_given_password_replaces_another(path: Path) -> None:
    deploy(path)
    deploy(path, given=GIVEN)
    assert stored(path) == GIVEN


def test_password_is_stored_before_the_head_needs_it(path: Path) -> None:
    with password_file.provision_password(path, Secret, True, GIVEN):
        assert stored(path) == GIVEN


def test_disabled_service_deletes_the_password_after_success(path: Path) -> None:
    deploy(path)
    with pytest.raises(NodesFailed):
        deploy(path, wanted=False, fails=True)
    assert path.exists()
    deploy(path, wanted=False)
    assert password_file.read(path, Secret) is None


@pytest.mark.parametrize("content", ["{", '{"pass": "' + GIVEN + '"}'])
def test_invalid_password_file_is_named_without_its_content(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(StateError, match=r"secret\.json cannot be read: secret\.json holds no password") as caught:
        deploy(path)
    assert GIVEN not in caught.value.message
    assert "remove it" in caught.value.hint


def test_unreadable_password_file_is_named_with_the_reason(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=r"secret\.json cannot be read: is a directory"):
        password_file.read(path, Secret)
