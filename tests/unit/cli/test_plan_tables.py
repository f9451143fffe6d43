"""Changes and costs of a cluster, as people see them."""

import pytest

from orchestrator.cli import plan_tables
from orchestrator.lifecycle.prices import Item


@pytest.mark.parametrize(
    ("each", "shown"), [(0.0014, "0.0014"), (0.045, "0.045"), (0.1, "0.10"), (12.345, "12.35"), (0.0, "0.00")]
)
def test_low_prices_have_two_digits(each: float, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan_tables.costs([Item("GB of disk", 100, each)], "EUR")
    row = capsys.readouterr().out.splitlines()[2]
    assert row.split()[4:6] == [shown, "EUR"]
