"""Tables on narrow terminals, and JSON."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.cli import output

NUMBERS = ("0.2500", "90.00%", "12.5 MB/s", "1.200 to 1.300", "-", "400")


def printed(width: int, rows: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, text: str = "cell") -> list[str]:
    """Print a table with ``rows`` of a text and numbers on a terminal of ``width`` columns, and return its lines."""
    monkeypatch.setattr(output.console, "width", width)
    with output.console.capture() as captured:
        output.table((text, "loss", "top-1", "in", "95 % interval", "left", "images/s"), rows)
    return captured.get().splitlines()


def test_narrow_terminal_folds_texts_and_keeps_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    title = "tensorflow: resnet50 on imagenette, 16 ranks, batch 64"
    lines = printed(90, [(title, *NUMBERS)], monkeypatch)
    assert max(map(len, lines)) <= 90
    assert all(number in lines[1] for number in NUMBERS)
    width = lines[0].index("loss")
    assert " ".join(line[:width].strip() for line in lines[1:]) == title


def test_text_is_folded_to_a_least_width_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(40, [("tensorflow: resnet50", *NUMBERS)], monkeypatch)
    assert all(number in lines[1] for number in NUMBERS)
    assert [line[:12].strip() for line in lines] == ["cell", "tensorflow:", "resnet50"]


def test_long_word_is_folded_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(40, [("resnet50-imagenette-17", *NUMBERS)], monkeypatch)
    assert "".join(line[:12].strip() for line in lines[1:]) == "resnet50-imagenette-17"


def test_json_has_names_that_are_not_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"a\xff")
    output.as_json({"left_out": {name: "a link"}, "path": Path("/x")})
    assert json.loads(capsys.readouterr().out) == {"left_out": {name: "a link"}, "path": "/x"}
