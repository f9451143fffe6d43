"""Grafana's password on this machine: its source, and the places where it is not."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config, Monitoring
from orchestrator.monitoring import grafana_password
from orchestrator.state import StateDir
from tests import builders
from tests.unit.conftest import COMMAND, Cli

GIVEN, TOO_SHORT = "correct horse battery", "s3cret"


def deploy(state_dir: StateDir, enabled: bool = True, password: str | None = None) -> None:
    """Provision the password like a deploy."""
    settings = Config(name=state_dir.name, monitoring=Monitoring(enabled=enabled), monitoring_password=password)
    state.write(
        state_dir, builders.read_record(state_dir).model_copy(update={"config": settings.model_dump(mode="json")})
    )
    with grafana_password.provision_password(state_dir, settings):
        pass


def test_configured_password_is_used_and_in_no_other_file() -> None:
    state_dir = builders.deployed()
    deploy(state_dir, password=GIVEN)
    holders = [path for path in state_dir.path.rglob("*") if path.is_file() and GIVEN in path.read_text()]
    assert holders == [state_dir.monitoring]
    assert grafana_password.read(state_dir) == GIVEN


def test_no_password_without_monitoring() -> None:
    state_dir = builders.deployed()
    deploy(state_dir)
    deploy(state_dir, enabled=False)
    assert grafana_password.read(state_dir) is None


def test_teardown_deletes_the_password() -> None:
    state_dir = builders.deployed()
    deploy(state_dir)
    state.forget(state_dir)
    assert not state_dir.monitoring.exists()


def test_deploy_reads_file_or_variable_and_prints_no_password(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{TOO_SHORT}\nand a second line\n")
    from_file = cli("deploy", "--grafana-password-file", "secret")
    from_variable = cli("deploy", ORCHESTRATOR_MONITORING_PASSWORD=TOO_SHORT)
    for finished in (from_file, from_variable):
        assert (finished.returncode, finished.stdout) == (2, "")
        assert "monitoring_password: " in finished.stderr
        assert "at least 8" in finished.stderr
        assert TOO_SHORT not in finished.stderr


def test_missing_file_is_refused(cli: Cli) -> None:
    finished = cli("deploy", "--grafana-password-file", "nowhere")
    assert finished.returncode == 2
    assert "error: --grafana-password-file: nowhere: No such file or directory" in finished.stderr


def test_password_on_the_command_line_is_refused(cli: Cli) -> None:
    assert cli("deploy", "--grafana-password", GIVEN).returncode == 2
    assert cli("deploy", f"--grafana-password={GIVEN}").returncode == 2


@pytest.mark.parametrize("typed", ["", "typed once\n", "typed twice\n" * 2])
def test_prompt_without_a_terminal_names_the_other_ways(tmp_path: Path, typed: str) -> None:
    finished = subprocess.run(
        [COMMAND, "deploy", "--grafana-password"],
        cwd=tmp_path,
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none"},  # a deploy that starts in spite of it must fail
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # getpass asks on the terminal of the session, if it has one
    )
    assert finished.returncode == 2
    assert finished.stderr.splitlines()[-2:] == [
        "error: --grafana-password: there is no terminal on which the password could be typed",
        "use --grafana-password-file FILE or $ORCHESTRATOR_MONITORING_PASSWORD",
    ]
