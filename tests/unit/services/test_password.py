"""A password that is kept on this side: made up or given, for its owner alone, gone with what it is for."""

from pathlib import Path

import pytest

from orchestrator.errors import NodesFailed, StateError
from orchestrator.services import password
from orchestrator.services.password import Secret

GIVEN = "correct horse battery"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret.json"


def deploy(path: Path, wanted: bool = True, given: str | None = None, fails: bool = False) -> None:
    """What a deploy does about a password."""
    with password.provision_password(path, Secret, wanted, given):
        if fails:
            raise NodesFailed("configuration failed", {"default-head": "no"})


def kept(path: Path) -> str:
    secret = password.read(path, Secret)
    assert secret is not None
    return secret.password


def test_a_password_is_made_up_and_kept_for_its_owner_alone(path: Path) -> None:
    deploy(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(kept(path)) >= 20


def test_two_that_are_made_up_are_not_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    deploy(first)
    deploy(second)
    assert kept(first) != kept(second)


@pytest.mark.parametrize("given", [None, GIVEN])
def test_a_second_deploy_leaves_it_as_it_is(path: Path, given: str | None) -> None:
    deploy(path, given=given)
    before = path.read_bytes()
    for again in (given, None):  # also where cluster.yaml is not at hand
        deploy(path, given=again)
        assert path.read_bytes() == before


def test_one_that_is_given_takes_the_place_of_another(path: Path) -> None:
    deploy(path)
    deploy(path, given=GIVEN)
    assert kept(path) == GIVEN


def test_it_is_there_before_the_head_needs_it(path: Path) -> None:
    with password.provision_password(path, Secret, True, GIVEN):
        assert kept(path) == GIVEN


def test_once_off_it_goes_with_the_next_deploy_that_works(path: Path) -> None:
    deploy(path)
    with pytest.raises(NodesFailed):
        deploy(path, wanted=False, fails=True)
    assert path.exists()
    deploy(path, wanted=False)
    assert password.read(path, Secret) is None


@pytest.mark.parametrize("content", ["{", '{"pass": "' + GIVEN + '"}'])
def test_a_file_that_holds_none_is_named_with_its_remedy_and_without_what_it_holds(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(StateError, match=r"secret\.json cannot be read: secret\.json holds no password") as caught:
        deploy(path)
    assert GIVEN not in caught.value.message
    assert "remove it" in caught.value.hint


def test_a_file_that_the_system_does_not_let_us_read_is_named_with_the_reason(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=r"secret\.json cannot be read: is a directory"):
        password.read(path, Secret)
