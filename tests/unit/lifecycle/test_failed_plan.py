"""A plan that fails, with stand-ins for Docker Engine and Terraform."""

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import CommandFailed
from orchestrator.lifecycle import plan
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import StandIn

TERRAFORM = """
case $1 in
  version) echo '{"terraform_version": "1.11.4"}' ;;
  *) echo "no provider can be had"; exit 1 ;;
esac
"""


def test_log_named_by_a_failed_plan_is_readable(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> None:
    for name, script in {"docker": "exit 0", "ssh": "exit 0", "terraform": TERRAFORM}.items():
        stand_in(name, script)
    with docker_stand_in.listening({}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CommandFailed, match="no provider can be had") as caught:
            plan.plan(Config(name="demo"))
    log = state.for_cluster("demo").path / "logs" / "plan.log"
    assert caught.value.hint == f"whole log: {log}"
    assert "no provider can be had" in log.read_text()
