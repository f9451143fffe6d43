"""Grafana's password on this side: made up or given, kept for its owner alone, gone with what it is for."""

from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config, Monitoring
from orchestrator.errors import NodesFailed, StateError
from orchestrator.monitoring import password
from orchestrator.state import Home
from tests import builders
from tests.unit.conftest import Cli

GIVEN = "correct horse battery"


def deploy(place: Home, enabled: bool = True, given: str | None = None, fails: bool = False) -> None:
    """What a deploy does about the password."""
    wanted = Config(name=place.name, monitoring=Monitoring(enabled=enabled), monitoring_password=given)
    with password.settled(place, wanted):
        if fails:
            raise NodesFailed("configuration failed", {"default-head": "no"})


def test_the_password_is_made_up_and_kept_for_its_owner_alone() -> None:
    place = builders.deployed()
    deploy(place)
    assert place.monitoring.stat().st_mode & 0o777 == 0o600
    assert len(password.read(place) or "") >= 20


def test_the_password_of_the_config_is_taken_and_is_in_no_other_file() -> None:
    place = builders.deployed()
    deploy(place, given=GIVEN)
    holders = [path for path in place.path.rglob("*") if path.is_file() and GIVEN in path.read_text()]
    assert holders == [place.monitoring]
    assert password.read(place) == GIVEN


@pytest.mark.parametrize("given", [None, GIVEN])
def test_a_second_deploy_leaves_the_password_as_it_is(given: str | None) -> None:
    place = builders.deployed()
    deploy(place, given=given)
    before = place.monitoring.read_bytes()
    for again in (given, None):  # also where cluster.yaml is not at hand
        deploy(place, given=again)
        assert place.monitoring.read_bytes() == before


def test_once_off_it_goes_with_the_next_deploy_that_works() -> None:
    place = builders.deployed()
    deploy(place)
    with pytest.raises(NodesFailed):
        deploy(place, enabled=False, fails=True)
    assert place.monitoring.exists()
    deploy(place, enabled=False)
    assert password.read(place) is None


def test_a_teardown_forgets_the_password() -> None:
    place = builders.deployed()
    deploy(place)
    state.forget(place)
    assert not place.monitoring.exists()


def test_a_file_that_holds_none_is_named_without_what_it_holds() -> None:
    place = builders.deployed()
    place.monitoring.write_text('{"pass": "' + GIVEN + '"}')
    with pytest.raises(StateError, match=r"monitoring\.json holds no password") as caught:
        deploy(place)
    assert GIVEN not in caught.value.message
    assert "remove it" in caught.value.hint


TOO_SHORT = "s3cret"


def test_a_deploy_takes_it_from_a_file_or_the_variable_and_prints_it_nowhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{TOO_SHORT}\nand a second line\n")
    from_file = cli("deploy", "--grafana-password-file", "secret")
    from_variable = cli("deploy", ORCHESTRATOR_MONITORING_PASSWORD=TOO_SHORT)
    for finished in (from_file, from_variable):
        assert (finished.returncode, finished.stdout) == (2, "")
        assert "monitoring_password: " in finished.stderr
        assert "at least 8" in finished.stderr
        assert TOO_SHORT not in finished.stderr


def test_a_file_that_is_not_there_is_refused(cli: Cli) -> None:
    finished = cli("deploy", "--grafana-password-file", "nowhere")
    assert finished.returncode == 2
    assert "error: --grafana-password-file: nowhere: No such file or directory" in finished.stderr


def test_a_password_on_the_command_line_is_refused(cli: Cli) -> None:
    assert cli("deploy", "--grafana-password", GIVEN).returncode == 2
    assert cli("deploy", f"--grafana-password={GIVEN}").returncode == 2
