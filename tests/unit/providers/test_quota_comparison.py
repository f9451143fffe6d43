"""Number of nodes that a quota allows, for every provider."""

from dataclasses import dataclass

import pytest

from orchestrator.errors import PreflightError
from orchestrator.providers.quota_comparison import Need, require_enough


@dataclass(frozen=True)
class Quota:
    free: float


def test_large_head_leaves_quota_for_fewer_workers() -> None:
    assert Need(0, [512, 1, 1]).fits(513) == 2


@pytest.mark.parametrize(("free", "nodes"), [(1, 0), (2, 2), (4, 4), (9, 5)])
def test_existing_nodes_count_unless_the_cluster_does_not_fit(free: float, nodes: int) -> None:
    assert Need(2, [1, 1, 1]).fitting(free, 5) == nodes


def test_each_too_small_quota_is_refused_with_the_common_number() -> None:
    refused: list[tuple[str, int]] = []

    def refuse(name: str, quota: Quota, need: Need, fewest: int) -> None:
        refused.append((name, fewest))
        raise PreflightError(f"{name}: {quota.free:g} of {need.sum:g}", "ask for more")

    needs = {name: Need(0, [1, 1, 1]) for name in ("cores", "disks", "ports", "hidden")}
    with pytest.raises(PreflightError, match="cores: 2 of 3") as caught:
        require_enough({"cores": Quota(2), "disks": Quota(1), "ports": Quota(3)}, needs, 4, refuse)
    assert refused == [("cores", 2), ("disks", 2)]
    assert [finding.message for finding in caught.value.findings] == ["cores: 2 of 3", "disks: 1 of 3"]
