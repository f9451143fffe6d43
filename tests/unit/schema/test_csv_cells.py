"""Text for cells that spreadsheets open."""

import pytest

from orchestrator.schema.csv_cells import no_formula


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+cmd", "@SUM(A1)", "\t=1"])
def test_formulas_become_text(text: str) -> None:
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["+Inf", "-0.5", "1e-3", "demo-head", "a=b", ""])
def test_numbers_and_other_text_stay(text: str) -> None:
    assert no_formula(text) == text
