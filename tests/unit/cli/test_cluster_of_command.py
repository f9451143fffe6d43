"""Options of a group of commands count for its commands too."""

import pytest

from tests.unit.conftest import Cli


@pytest.mark.parametrize("argv", [["--cluster", "other", "remove"], ["remove", "--cluster", "other"]])
def test_packages_are_removed_from_the_cluster_that_is_named(cli: Cli, argv: list[str]) -> None:
    result = cli("packages", *argv, "--all")
    assert result.returncode == 1
    assert "cluster 'other' is not deployed" in result.stderr
