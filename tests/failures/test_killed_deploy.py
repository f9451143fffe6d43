"""Deploys killed at ten moments; tests/long has three of them."""

import pytest

from tests.e2e.command import Cli
from tests.e2e.conftest import cli, site
from tests.long.test_killed_deploy import (
    TEN,
    deploy_seconds,
    kill_deploy,
    require_next_deploy_completes,
    require_teardown_removes_all,
    share,
)

__all__ = ["cli", "deploy_seconds", "site"]


@pytest.mark.parametrize("moment", range(TEN))
def test_killed_deploy_is_completed_by_next_deploy(cli: Cli, deploy_seconds: float, moment: int) -> None:
    require_next_deploy_completes(cli, deploy_seconds * share(moment))


@pytest.mark.parametrize("moment", range(TEN))
def test_killed_deploy_is_removed_by_teardown(cli: Cli, deploy_seconds: float, moment: int) -> None:
    kill_deploy(cli, deploy_seconds * share(moment))
    require_teardown_removes_all(cli)
