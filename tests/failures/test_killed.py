"""A deploy killed at ten moments: tests/long has three of them."""

import pytest

from tests.e2e.command import Cli
from tests.e2e.conftest import cli, site
from tests.long.test_killed import TEN, deploy_seconds, finished_by_the_next, killed, removed, share

__all__ = ["cli", "deploy_seconds", "site"]


@pytest.mark.parametrize("moment", range(TEN))
def test_it_is_finished_by_the_next(cli: Cli, deploy_seconds: float, moment: int) -> None:
    finished_by_the_next(cli, deploy_seconds * share(moment))


@pytest.mark.parametrize("moment", range(TEN))
def test_it_is_removed_by_teardown(cli: Cli, deploy_seconds: float, moment: int) -> None:
    killed(cli, deploy_seconds * share(moment))
    removed(cli)
