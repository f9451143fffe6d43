"""Contradictions within published tables: found by arithmetic, with the tolerance of the printed digits."""

from dataclasses import dataclass

import pytest

from orchestrator.schema.studies import Metric, Published
from orchestrator.studies import study_files
from orchestrator.studies.report import contradictions, published_numbers
from tests.unit.studies import published


def number(metric: Metric, value: float, ranks: int = 1, text: str = "", source: str = "table 1") -> Published:
    return Published(cell={"model": "resnet50", "ranks": ranks}, metric=metric, value=value, source=source, text=text)


@pytest.mark.parametrize("samples", [60_000, None], ids=["samples known", "samples derived"])
def test_exactly_the_three_wrong_cells_of_dey_2022_are_found(samples: int | None) -> None:
    contradicting = contradictions.find(published.dey(), lambda _: samples)
    assert [
        (each.kind, each.cell["engine"], each.cell["model"], each.column, each.cell["ranks"]) for each in contradicting
    ] == [
        ("seconds", "ray-torch", "mobilenet_v2", "N5", 1),
        ("seconds", "horovod-tensorflow", "resnet50", "N9", 1),
        ("seconds", "horovod-tensorflow", "mobilenet_v2", "N9", 1),
    ]
    assert "73,439" in contradicting[0].message
    assert "20,000" in contradicting[1].message
    assert "97,720" in contradicting[2].message


def test_consistent_table_has_no_contradiction() -> None:
    wrong = {(each.column, each.cell["engine"], each.cell["model"], each.cell["ranks"])
             for each in contradictions.find(published.dey())}  # fmt: skip
    right = [n for n in published.dey() if (n.column, n.cell["engine"], n.cell["model"], n.cell["ranks"]) not in wrong]
    assert contradictions.find(right) == []


def test_samples_are_those_of_each_numbers_own_data_set() -> None:
    sizes = {"mnist": 60_000, "imagenet": 1_281_167}
    rows = [
        Published(cell={"dataset": name, "ranks": ranks}, metric=metric, value=value, source="table 1")
        for name, size in sizes.items()
        for ranks in (1, 2, 4)
        for metric, value in (("images_per_second", 400.0 * ranks), ("seconds", float(round(size / 400 / ranks))))
    ]
    assert contradictions.find(rows, lambda name: sizes[name]) == []
    assert contradictions.find(rows) == []
    wrong = contradictions.find(rows, lambda _: 60_000)
    assert {each.cell["dataset"] for each in wrong} == {"imagenet"}


def test_shipped_study_has_both_readings_of_ghimire() -> None:
    shipped, copy = study_files.find("ghimire").published, published.ghimire()
    times = [(row.cell["ranks"], row.value, row.text) for row in shipped if row.metric == "seconds"]
    assert times == [(row.cell["ranks"], row.value, row.text) for row in copy]
    readings = [contradictions.find(rows) for rows in (shipped, copy)]
    assert [[(each.kind, each.cell["ranks"]) for each in found] for found in readings] == [
        [("reading", 2), ("reading", 4)]
    ] * 2
    assert "2.77" in readings[0][1].message


def test_both_readings_of_ghimire_are_compared() -> None:
    contradicting = contradictions.find(published.ghimire())
    four = [each for each in contradicting if each.cell["ranks"] == 4]
    assert [each.kind for each in four] == ["reading"]
    assert "speed-up of 4," in four[0].message
    assert "2.77" in four[0].message


def test_printed_speed_up_of_ghimire_contradicts_its_steps() -> None:
    claim = Published(cell={"model": "lenet", "ranks": 4}, metric="speed_up", value=4.0, source="text", text="4 x")
    assert "speed-up" in {each.kind for each in contradictions.find([*published.ghimire(), claim])}


@dataclass
class Case:
    numbers: list[Published]
    kinds: list[str]


CASES = {
    "speed-up that follows from images/s": Case(
        [number("images_per_second", 100), number("images_per_second", 180, 2), number("speed_up", 1.8, 2)], []
    ),
    "speed-up that does not follow from seconds": Case(
        [number("seconds", 10.25), number("seconds", 6.15, 2), number("speed_up", 2.0, 2, "2.0")], ["speed-up"]
    ),
    "efficiency that follows from the speed-up": Case([number("speed_up", 3.2, 4), number("efficiency", 0.8, 4)], []),
    "efficiency that does not": Case([number("speed_up", 3.2, 4), number("efficiency", 0.95, 4)], ["efficiency"]),
    "efficiency against images/s": Case(
        [number("images_per_second", 750), number("images_per_second", 1386, 2), number("efficiency", 0.85, 2)],
        ["efficiency"],
    ),
    "efficiency of a table without a single rank": Case(
        [number("images_per_second", 750, 8), number("images_per_second", 1386, 16), number("efficiency", 0.85, 16)], []
    ),
    "accuracy in percent": Case([number("top1", 90.2)], ["unit"]),
    "efficiency in percent": Case([number("efficiency", 90, 2)], ["unit"]),
    "efficiency above one": Case([number("efficiency", 1.05, 2)], []),
    "accuracy printed in percent and entered as a fraction": Case([number("top1", 0.902, text="90.2 %")], []),
    "the same number twice": Case([number("seconds", 3.0, source="a"), number("seconds", 3, source="b")], []),
    "another number for the same cell": Case(
        [number("seconds", 3.25, source="a"), number("seconds", 3.75, source="b")], ["twice"]
    ),
    "nothing": Case([], []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rule(case: Case) -> None:
    assert [each.kind for each in contradictions.find(case.numbers)] == case.kinds


@pytest.mark.parametrize(
    ("value", "text", "decimals"),
    [
        (4.0798, "", 4),
        (3.0, "", 0),
        (0.9, ".90", 2),
        (0.902, "90.2 %", 3),
        (4.5, "4s 9ms", 1),
        (1656.82, "1,656.82", 2),
    ],
)
def test_decimals_are_the_printed_ones(value: float, text: str, decimals: int) -> None:
    assert published_numbers.decimals(number("seconds", value, text=text)) == decimals


def test_efficiency_of_a_cell_without_ranks_is_not_compared() -> None:
    cell = {"model": "resnet50"}
    numbers = [Published(cell=cell, metric="speed_up", value=1.6, source="x"),
               Published(cell=cell, metric="efficiency", value=0.8, source="x")]  # fmt: skip
    assert contradictions.find(numbers) == []


@pytest.mark.parametrize("metric", ["seconds", "images_per_second"])
@pytest.mark.parametrize("values", [(0.0, 5.0), (5.0, 0.0)])
def test_published_zero_has_no_speed_up(metric: Metric, values: tuple[float, float]) -> None:
    one, two = (number(metric, value, ranks, "4s 9ms") for ranks, value in enumerate(values, 1))
    assert contradictions.find([one, two, number("speed_up", 1.9, 2)]) == []
