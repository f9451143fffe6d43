"""Reports of a study in every format, from generated launches, including hostile names."""

import csv
import io
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from orchestrator.errors import StateError
from orchestrator.studies import matrix
from orchestrator.studies.report import cells, content, formats, markdown_and_latex, study_directory
from orchestrator.studies.report.content import Report
from orchestrator.studies.report.tables import Table
from tests.unit.studies import published, sample_study
from tests.unit.studies.sample_study import Sample
from tests.unit.studies.studies import study

VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "<script>alert(1)</script>\"'&{0}`$x^2$|[a](javascript:b)\x1b[31m\u202e=1+1"


class Page(HTMLParser):
    """Elements and text of a page; fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def dumped(numbers: Any) -> list[dict[str, Any]]:
    return [number.model_dump() for number in numbers]


@pytest.fixture(scope="module")
def sample_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    directory = tmp_path_factory.mktemp("sample") / "sample-study"
    numbers = dumped(sample_study.published())
    shrink = {"image_size": 32, "until": {"epochs": 8, "top1": 0.85}}
    return content.build(Sample().write(directory, published=numbers, shrink=shrink, shrunk=True))


@pytest.fixture(scope="module")
def page(sample_report: Report) -> str:
    return formats.FORMATS["html"](sample_report)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_cells_have_their_medians_ratios_and_base_cases(sample_report: Report) -> None:
    by_ranks = {
        summary.cell.ranks: summary
        for summary in sample_report.summaries
        if (summary.series, summary.cell.model) == ("ours", "resnet20")
    }
    assert by_ranks[1].speed_up is None
    four = by_ranks[4]
    assert (four.base.ranks, len(four.launches), four.is_base) == (1, 7, False)
    assert four.images is not None
    assert four.efficiency is not None
    assert four.ratio is not None
    assert four.images.value == pytest.approx(410 * 4 / 1.06, rel=0.05)
    assert four.efficiency.value == pytest.approx(1 / 1.06, rel=0.03)
    assert four.ratio.value == pytest.approx(1.18 / 1.06 / 0.43, rel=0.03)
    assert four.top1 is not None
    assert four.parts is not None
    assert four.parts.communication == pytest.approx(0.06 * 64 / 410, rel=0.06)
    assert four.to_accuracy is not None
    assert four.to_accuracy.value < four.seconds.value * 8 if four.seconds else False


def test_aa_pair_is_separate_from_its_cell(sample_report: Report) -> None:
    pairs = [cells.aa(summary) for summary in sample_report.summaries if summary.again]
    assert [pair and pair.n for pair in pairs] == [7]
    assert sample_report.notes[0].endswith("it holds 1, as it should.")


def test_aa_pair_that_differs_from_one_is_reported(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["resnet20"])
    sample.launches = [
        launch.model_copy(update={"images_per_second": (launch.images_per_second or 0) * 1.2})
        if launch.again
        else launch
        for launch in sample.launches
    ]
    built = content.build(sample.write(tmp_path / "study"))
    assert "does NOT hold 1" in built.notes[0]
    assert 'class="note warn">The same cell' in formats.FORMATS["html"](built)


def test_published_numbers_are_shown_with_measured_ones(sample_report: Report) -> None:
    speeds = [comparison for comparison in sample_report.comparisons if comparison.number.metric == "images_per_second"]
    assert [comparison.summary.cell.ranks for comparison in speeds if comparison.summary] == [1, 2, 4, 8]
    for comparison in speeds:
        assert comparison.ratio
        assert comparison.measured
        assert comparison.ratio.value == pytest.approx(comparison.measured.value / comparison.published)
    assert [(contradiction.kind, contradiction.cell["ranks"]) for contradiction in sample_report.contradictions] == [
        ("seconds", 4)
    ]


def test_both_readings_of_an_ambiguous_text_are_compared(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2, 4], rounds=6)
    built = content.build(sample.write(tmp_path / "study", published=dumped(published.ghimire()), samples=60_000))
    readings = [
        (comparison.number.cell["ranks"], comparison.reading, comparison.published) for comparison in built.comparisons
    ]
    assert readings == [
        *((1, "steps x ms", 4.5), (1, "whole seconds", 4.0)),
        *((2, "steps x ms", 2.75), (2, "whole seconds", 2.0)),
        *((4, "steps x ms", 1.625), (4, "whole seconds", 1.0)),
    ]


def test_numbers_of_a_replaced_data_set_are_shown_with_it(tmp_path: Path) -> None:
    numbers = [{"cell": {"dataset": "imagenet", "ranks": 1}, "metric": "top1", "value": 0.75, "source": "table 1"}]
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=6)
    shrink = {"datasets": {"imagenet": "cifar10"}}
    for shrunk, cells_found in ((True, [1]), (False, [])):
        directory = sample.write(tmp_path / str(shrunk), published=numbers, shrink=shrink, shrunk=shrunk)
        compared = content.build(directory).comparisons
        assert [comparison.summary.cell.ranks for comparison in compared if comparison.summary] == cells_found


def seconds(dataset: str) -> dict[str, Any]:
    return {"cell": {"dataset": dataset, "ranks": 1}, "metric": "seconds", "value": 10.0, "source": "x"}


def test_published_seconds_are_of_the_samples_of_their_own_data_set(tmp_path: Path) -> None:
    sample, other = (Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6) for _ in range(2))
    cell = other.cells[0].model_copy(update={"dataset": "synthetic"})
    sample.launches += [
        launch.model_copy(update={"cell": cell, "key": cell.key, "run": None}) for launch in other.launches
    ]
    numbers = [seconds("cifar10"), seconds("synthetic")]
    built = content.build(sample.write(tmp_path / "study", published=numbers))
    known, unknown = built.comparisons
    assert known.measured
    assert known.summary
    assert known.summary.images
    assert known.measured.value == pytest.approx(50_000 / known.summary.images.value)
    assert (unknown.measured, unknown.ratio) == (None, None)
    for name in ("html", "markdown", "latex"):
        text = formats.FORMATS[name](built)
        assert "Published seconds on synthetic have no measured number to compare with: the number of" in text


def test_published_seconds_of_a_replaced_data_set_are_of_its_samples(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    shrink = {"datasets": {"imagenet": "cifar10"}}
    directory = sample.write(tmp_path / "study", published=[seconds("imagenet")], shrink=shrink, shrunk=True)
    (compared,) = content.build(directory).comparisons
    assert compared.measured
    assert compared.summary
    assert compared.summary.images
    assert compared.measured.value == pytest.approx(1_281_167 / compared.summary.images.value)


@pytest.mark.parametrize(
    ("datasets", "samples"), [(["imagenet"], 1_281_167), (["cifar10"], 50_000), (["imagenet", "cifar10"], None)]
)
def test_published_seconds_without_a_data_set_are_of_the_replaced_one(
    tmp_path: Path, datasets: list[str], samples: int | None
) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    numbers = [{"cell": {"ranks": 1}, "metric": "seconds", "value": 10.0, "source": "x"}]
    shrink = {"datasets": {"imagenet": "cifar10"}}
    directory = sample.write(tmp_path / "study", datasets=datasets, published=numbers, shrink=shrink, shrunk=True)
    built = content.build(directory)
    (compared,) = built.comparisons
    assert compared.summary
    assert compared.summary.images
    measured = compared.measured and compared.measured.value * compared.summary.images.value
    assert measured == (samples and pytest.approx(samples))
    unknown = "Published seconds on imagenet or cifar10 have no measured number to compare with: "
    assert any(note.startswith(unknown) for note in built.notes) == (samples is None)


def consistent(samples: int, **cell: Any) -> list[dict[str, Any]]:
    """Return a table whose times and speeds agree for a number of samples."""
    return [
        {"cell": {**cell, "ranks": ranks}, "metric": metric, "value": value, "source": "x"}
        for ranks in (1, 2, 4)
        for metric, value in (("images_per_second", 400.0 * ranks), ("seconds", round(samples / 400 / ranks, 2)))
    ]


@pytest.mark.parametrize("cell", [{"dataset": "imagenet"}, {}], ids=["named", "not named"])
@pytest.mark.parametrize(("samples", "kinds"), [(1_281_167, []), (900_000, ["seconds"] * 3)])
def test_numbers_of_a_replaced_data_set_contradict_by_its_samples(
    tmp_path: Path, cell: dict[str, Any], samples: int, kinds: list[str]
) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    shrink = {"datasets": {"imagenet": "cifar10"}}
    numbers = consistent(samples, **cell)
    built = content.build(sample.write(tmp_path / "study", published=numbers, shrink=shrink, shrunk=True))
    assert [each.kind for each in built.contradictions] == (kinds if cell else [])


@pytest.mark.parametrize(("samples", "kinds"), [(50_000, []), (60_000, ["seconds"] * 3)])
def test_numbers_without_a_data_set_are_of_the_only_one(tmp_path: Path, samples: int, kinds: list[str]) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    built = content.build(sample.write(tmp_path / "study", published=consistent(samples)))
    assert [each.kind for each in built.contradictions] == kinds


@pytest.mark.parametrize(("ended", "whole"), [("steps", 7), ("max-time", 7), ("epochs", 8), ("until", 8)])
def test_seconds_of_an_epoch_are_of_whole_epochs(tmp_path: Path, ended: str, whole: int) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    sample.results = [result.model_copy(update={"ended": ended}) for result in sample.results]
    assert {len(cells.whole_epochs(result)) for result in sample.results} == {whole}
    assert content.build(sample.write(tmp_path / "many")).summaries[0].seconds
    sample.results = [result.model_copy(update={"epochs": result.epochs[:1]}) for result in sample.results]
    (row,) = rows(formats.FORMATS["csv"](content.build(sample.write(tmp_path / "one"))))
    assert bool(row["seconds_per_epoch"]) == (whole == 8)


def test_time_and_epochs_to_the_end_are_shown(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    for number, run in enumerate(sample.results):
        last = run.epochs[-1].model_copy(update={"seconds": 100.0 + number, "test_seconds": 20.0})
        others = [epoch.model_copy(update={"seconds": 0.0, "test_seconds": 0.0}) for epoch in run.epochs[:-1]]
        sample.results[number] = run.model_copy(update={"epochs": [*others, last]})
    built = content.build(sample.write(tmp_path / "study"))
    (table,) = (each for each in built.tables if each.title.startswith("Accuracy"))
    shown = dict(zip(table.headings, table.rows[0], strict=True))
    assert (shown["s to the end"], shown["epochs"]) == ("125.0 [120.0, 130.0]", "8")
    (row,) = rows(formats.FORMATS["csv"](built))
    assert (row["seconds_to_end"], row["epochs"]) == ("125.0", "8.0")


def test_only_the_launch_of_a_round_that_counts_enters_numbers(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    plain = content.build(sample.write(tmp_path / "plain"))
    first, result = sample.launches[0], sample.results[0]
    epochs = [epoch.model_copy(update={"seconds": 1e6, "test": epoch.test.model_copy(update={"top1": 0.0})})
              for epoch in result.epochs]  # fmt: skip
    for number in range(5):
        run = f"busy-{number}"
        sample.launches.append(first.model_copy(update={"run": run, "busy": 0.9}))
        sample.results.append(result.model_copy(update={"run": run, "epochs": epochs}))
    built = content.build(sample.write(tmp_path / "busy"))
    assert formats.FORMATS["csv"](built) == formats.FORMATS["csv"](plain)
    (summary,) = built.summaries
    numbers = (summary.images, summary.top1, summary.seconds)
    assert [number and number.n for number in numbers] == [6, 6, 6]
    assert not any("launches began while" in note for note in built.notes)


def test_part_of_a_data_set_is_reported(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    part = {
        "epochs": [
            epoch.model_copy(
                update={
                    "train": epoch.train.model_copy(update={"images": 9_000}),
                    "test": epoch.test.model_copy(update={"images": 1_000}),
                }
            )
            for epoch in sample.results[0].epochs
        ]
    }
    sample.results = [result.model_copy(update=part) for result in sample.results]
    built = content.build(sample.write(tmp_path / "study"))
    for name in ("html", "markdown", "latex"):
        text = formats.FORMATS[name](built)
        assert "Only a part of cifar10 was used: 9,000 of 50,000 training images." in text
        assert "Only a part of cifar10 was used: 1,000 of 10,000 test images." in text


def test_other_threads_than_in_the_base_case_are_reported(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=6)
    sample.results = [
        result.model_copy(update={"config": result.config.model_copy(update={"threads": 2 // result.world.size})})
        for result in sample.results
    ]
    built = content.build(sample.write(tmp_path / "study"))
    words = "Threads per rank: 1, in the base case 2. Its speed-up and efficiency compare numbers of cores, too."
    assert words in built.notes
    assert words in formats.FORMATS["markdown"](built)


def test_equal_threads_are_not_reported(sample_report: Report) -> None:
    assert not any("Threads per rank" in note for note in sample_report.notes)


def test_whole_data_set_is_not_reported_as_a_part(sample_report: Report) -> None:
    assert not any("Only a part" in note for note in sample_report.notes)


def test_rounds_begin_with_one_where_people_read(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=2)
    sample.launches[0] = sample.launches[0].model_copy(update={"problem": "no"})
    built = content.build(sample.write(tmp_path / "study"))
    assert [row["round"] for row in rows(formats.FORMATS["launches"](built))] == ["1", "1", "2", "2"]
    assert [table.rows[0][2] for table in built.tables if table.title.startswith("Launches without")] == ["1"]


@pytest.mark.parametrize("shrunk", [True, False])
def test_accuracies_of_fewer_test_samples_are_not_compared(tmp_path: Path, shrunk: bool) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    limited = {"config": sample.results[0].config.model_copy(update={"test_samples": 64})}
    sample.results = [result.model_copy(update=limited) for result in sample.results]
    numbers = [
        {"cell": {"ranks": 1}, "metric": metric, "value": 0.9, "source": "x"}
        for metric in ("top1", "images_per_second")
    ]
    keys: dict[str, Any] = {"shrink": {"test_samples": 64}, "shrunk": True} if shrunk else {}
    built = content.build(sample.write(tmp_path / "study", published=numbers, **keys))
    assert [(result.measured is None, result.ratio is None) for result in built.comparisons] == [
        (True, True),
        (False, False),
    ]
    assert built.facts["shrunk"] == ("test_samples 64" if shrunk else "nothing")
    assert built.facts["test samples"] == "the first 64"
    for name in ("html", "markdown", "latex"):
        text = formats.FORMATS[name](built)
        assert "Accuracies are of the first 64 test samples, not of the whole test" in text
        assert "Top-1: of the first 64 test samples" in text
    assert {row["test_samples"] for row in rows(formats.FORMATS["csv"](built))} == {"64"}


def test_accuracies_of_the_whole_test_are_compared(tmp_path: Path) -> None:
    numbers = [{"cell": {"ranks": 1}, "metric": "top1", "value": 0.9, "source": "x"}]
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    built = content.build(sample.write(tmp_path / "study", published=numbers))
    assert all(comparison.ratio for comparison in built.comparisons)
    assert "test samples" not in built.facts
    assert not any("Accuracies are of" in note for note in built.notes)


def test_limit_above_the_test_split_has_no_effect(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    limited = {"config": sample.results[0].config.model_copy(update={"test_samples": 10**6})}
    sample.results = [result.model_copy(update=limited) for result in sample.results]
    assert "test samples" not in content.build(sample.write(tmp_path / "study")).facts


def test_machine_is_among_the_facts(tmp_path: Path) -> None:
    directory = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=1).write(tmp_path / "study")
    (directory / "machine.json").write_text('{"processor": "Example CPU, 2 cores", "instructions": "avx2"}')
    built = content.build(directory)
    assert (built.facts["processor"], built.facts["instructions"]) == ("Example CPU, 2 cores", "avx2")


def test_page_needs_no_other_file(page: str) -> None:
    parsed = Page(page)
    assert {tag for tag, _ in parsed.elements} & {"script", "link", "img", "iframe", "object", "base"} == set()
    links = [value for _, attributes in parsed.elements for name, value in attributes.items()
             if name in ("href", "src", "action", "data")]  # fmt: skip
    assert links
    assert {(value or "").partition(",")[0].partition("-")[0] for value in links} <= {
        "data:text/csv;base64",
        "#g1",
        "#g2",
    }
    assert re.findall(r"@import|url\((?!#)|https?:", page) == []


def test_page_has_unique_ids_and_named_plots(page: str) -> None:
    parsed = Page(page)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    plots = [attributes for attributes in parsed.all("svg") if attributes.get("class") != "swatch"]
    assert len(plots) == 12
    for attributes in plots:
        assert set((attributes["aria-labelledby"] or "").split()) <= set(ids)
    references = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', page))
    assert references <= set(ids)
    assert len(parsed.all("h1")) == 1
    assert all("scope" in attributes for attributes in parsed.all("th"))


def test_plots_are_well_formed_and_use_the_pages_colours(page: str) -> None:
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)  # noqa: S314
        assert re.findall(r"#[0-9a-f]{6}", drawing) == []


def test_many_ranks_have_plain_numbers_on_logarithmic_axes(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 4, 64], rounds=6)
    page = formats.FORMATS["html"](content.build(sample.write(tmp_path / "study")))
    assert "mathdefault" not in page
    assert {"1,000", "5,000"} <= set(Page(page).words)


def test_pair_without_a_measurement_has_no_chart_of_ratios(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=6)
    failed = {"images_per_second": None, "step_seconds": None, "problem": "no"}
    sample.launches = [launch.model_copy(update=failed if launch.again else {}) for launch in sample.launches]
    text = formats.FORMATS["html"](content.build(sample.write(tmp_path / "study")))
    assert "Time of a step" in text
    assert "Engines side by side" not in text


def test_page_keeps_what_wide_tables_and_labels_would_cut(page: str) -> None:
    assert "<caption><span>" in page
    assert "caption span { display: inline-block; position: sticky; left: 0;" in page
    assert re.search(r"figure svg:not\(\.swatch\) \{[^}]*overflow: visible", page)


def test_page_says_how_often_an_interval_of_a_wanted_width_holds_the_ratio(page: str) -> None:
    words = " ".join(" ".join(Page(page).words).split())
    assert "A study with width ends when the intervals of its ratios are narrow" in words
    assert "these hold the ratio 92 to 97 % of the time" in words


def test_printed_headings_stay_with_what_follows(page: str) -> None:
    assert "h2, h3, h4, caption, summary { break-after: avoid }" in page
    assert "h2, tr, .note, pre { break-inside: avoid }" in page


def test_launches_on_a_busy_machine_are_reported(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=6)
    sample.launches = [launch.model_copy(update={"busy": 0.5 * (launch.round == 2)}) for launch in sample.launches]
    built = content.build(sample.write(tmp_path / "study"))
    assert any(note.startswith("2 of 12 launches began while") for note in built.notes)
    assert "2 of 12 launches began while" in formats.FORMATS["html"](built)


def test_csv_has_a_row_per_cell_and_one_per_launch(sample_report: Report) -> None:
    summary, launches = rows(formats.FORMATS["csv"](sample_report)), rows(formats.FORMATS["launches"](sample_report))
    assert (len(summary), len(launches)) == (32, 7 * 33)
    assert float(summary[0]["images_per_second_low"]) <= float(summary[0]["images_per_second"])
    assert launches[0]["command"].startswith("orchestrator train resnet20 ")


def test_markdown_tables_have_equal_rows(sample_report: Report) -> None:
    text = formats.FORMATS["markdown"](sample_report)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "### Speed: resnet20 on cifar10, batch 64" in text


def test_latex_tables_use_booktabs_and_escape(sample_report: Report) -> None:
    text = formats.FORMATS["latex"](sample_report)
    assert text.count(r"\begin{tabular}") == text.count(r"\toprule") == text.count(r"\bottomrule") == 5
    assert text.count(r"\resizebox") == 5  # no table is wider than the text
    assert r"mobilenet\_v2" in text
    bodies = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert bodies
    assert all(re.search(r"(?<!\\)[#%$]", line) is None for line in bodies)


LATEX = [
    ("my_net 50% & #1 {x}", r"my\_net 50\% \& \#1 \{x\}"),
    (r"$y^2$ \input{x} ~", r"\$y\textasciicircum{}2\$ \textbackslash{}input\{x\} \textasciitilde{}"),
    ("`train --steps`", r"\textasciigrave{}train -{}-steps\textasciigrave{}"),
    ("isn't <b>|", r"isn\textquotesingle{}t \textless{}b\textgreater{}\textbar{}"),
    ("1.2 ± 0.1 µs ≤ 2", r"1.2 ± 0.1 µs \ensuremath{\leq} 2"),
    ("[5]", "{}[5]"),  # after the end of a row, it would be an argument of that end
    ("* first", "{}* first"),
]


@pytest.mark.parametrize(("text", "escaped"), LATEX)
def test_latex_reads_no_name_as_markup(text: str, escaped: str) -> None:
    table = Table(title="Speed", headings=("name", "n"), rows=[[text, "1"]])
    lines = markdown_and_latex.latex("x", {}, [table], []).splitlines()
    assert rf"    {escaped} & 1 \\" in lines


def test_facts_in_latex_stay_in_their_comment(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=2)
    directory = sample.write(tmp_path / "study", base={"engine": "ours\n\\input{x}"}, description="a\r\\input{x}")
    head, _ = formats.FORMATS["latex"](content.build(directory)).split(r"\begin{table}", 1)
    assert all(line.startswith("%") for line in head.splitlines() if line)


@pytest.mark.parametrize("name", ["kernel\n\\input{x}", HOSTILE])
def test_name_of_a_fact_of_the_machine_is_no_markup(tmp_path: Path, name: str) -> None:
    """Another person may have written machine.json."""
    directory = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=2).write(tmp_path / "study")
    (directory / "machine.json").write_text(json.dumps({name: "6.1"}))
    built = content.build(directory)
    head, _ = formats.FORMATS["latex"](built).split(r"\begin{table}", 1)
    assert {line[:1] for line in head.splitlines() if line} == {"%"}
    text = formats.FORMATS["markdown"](built)
    assert "<script" not in text.replace("\\<", "")
    assert "\n\\input" not in text


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Write a study whose files have hostile text at every possible place."""
    sample = Sample(engines=["ours", HOSTILE], models=["resnet20"], ranks=[1, 2], rounds=6)
    changed = {"versions": {HOSTILE: HOSTILE}, "damaged": [HOSTILE]}
    sample.results = [results.model_copy(update=changed) for results in sample.results]
    sample.results = [results.model_copy(update={"run": f"run-{n}"}) for n, results in enumerate(sample.results)]
    sample.launches = [
        launch.model_copy(update={"run": f"run-{n}", "command": [HOSTILE], "problem": HOSTILE if n == 3 else None})
        for n, launch in enumerate(sample.launches)
    ]
    numbers = [{"cell": {"model": HOSTILE, "ranks": 1}, "metric": "top1", "value": 90, "source": HOSTILE,
                "column": HOSTILE, "text": HOSTILE}]  # fmt: skip
    return sample.write(tmp_path / "study", name="n", description=HOSTILE, published=numbers,
                       shrunk=True, shrink={"x": HOSTILE})  # fmt: skip


def test_names_from_files_are_text_in_the_page(hostile: Path) -> None:
    parsed = Page(formats.FORMATS["html"](content.build(hostile)))
    assert {tag for tag, _ in parsed.elements} & {"script", "a1"} == set()
    assert {name for _, attributes in parsed.elements for name in attributes if name.startswith("on")} == set()
    text = "".join(parsed.words)
    assert text.count("<script>alert(1)</script>") > 10
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("name", ["markdown", "latex", "csv", "launches"])
def test_names_from_files_are_text_in_other_formats(hostile: Path, name: str) -> None:
    text = formats.FORMATS[name](content.build(hostile))
    assert "\x1b" not in text
    if name == "markdown":
        assert "<script" not in text.replace("\\<", "")
        assert "](" not in text.replace("\\](", "")
    if name in ("csv", "launches"):
        assert not any(str(value).startswith("=") for row in rows(text) for value in row.values())


def test_unfinished_study_has_a_partial_report(tmp_path: Path) -> None:
    directory = Sample(engines=["ours"], models=["resnet20"], ranks=[1, 2], rounds=2).write(tmp_path / "study")
    with (directory / "launches.jsonl").open("ab") as file:
        file.write('{"cell": {"engine": "é'.encode()[:-1])
    (directory / "runs" / "resnet20-ours-1-0" / "results.json").unlink()
    (directory / "runs" / "resnet20-ours-2-1" / "results.json").write_text("{")
    built = content.build(directory)
    assert [summary.images.interval for summary in built.summaries if summary.images] == [None, None]
    notes = " ".join(built.notes)
    assert "last line is incomplete" in notes
    assert "resnet20-ours-1-0/results.json is missing" in notes
    assert "resnet20-ours-2-1/results.json: line 1" in notes
    assert "too few rounds" in notes
    for form in formats.FORMATS.values():
        assert form(built)


def test_group_without_a_measured_cell_leaves_the_other_groups(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet", "resnet20"], ranks=[1, 16], rounds=2)
    failed = {"images_per_second": None, "step_seconds": None, "run": None, "problem": "rank 0 raised an error"}
    sample.launches = [
        launch.model_copy(update=failed) if launch.cell.model == "lenet" else launch for launch in sample.launches
    ]
    sample.results = [results for results in sample.results if results.config.model != "lenet"]
    page = formats.FORMATS["html"](content.build(sample.write(tmp_path / "study")))
    assert page.count("Images per second over ranks: resnet20") == 1
    assert "Images per second over ranks: lenet" not in page


def test_study_without_a_launch_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("name: empty\n")
    (tmp_path / "launches.jsonl").write_text("")
    built = content.build(tmp_path)
    assert all(form(built) is not None for form in formats.FORMATS.values())


def test_directory_without_a_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "launches.jsonl").write_text("")
    with pytest.raises(StateError, match=r"holds no study: study\.yaml is missing"):
        content.build(tmp_path)


def test_study_whose_first_launch_runs_has_no_report_yet(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("name: tiny\n")
    with pytest.raises(StateError, match="no launch has ended yet") as caught:
        content.build(tmp_path)
    assert f"`orchestrator study status {tmp_path}`" in caught.value.hint


def test_file_instead_of_a_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "launches.jsonl"
    path.write_text("")
    with pytest.raises(StateError, match="expected the directory of a study, found a file"):
        content.build(path)


@pytest.mark.parametrize(("name", "text"), [("study.yaml", "a: [1"), ("study.yaml", "published: 3"),
                                               ("launches.jsonl", "{}\n"), ("launches.jsonl", "x\n")])  # fmt: skip
def test_damaged_study_is_refused_with_its_place(tmp_path: Path, name: str, text: str) -> None:
    Sample(engines=["ours"], models=["resnet20"], ranks=[1], rounds=1).write(tmp_path / "study")
    (tmp_path / "study" / name).write_text(text)
    with pytest.raises(StateError, match=re.escape(name)):
        content.build(tmp_path / "study")


def test_thousand_launches_take_less_than_five_seconds(tmp_path: Path) -> None:
    sample = Sample(models=["resnet20", "mobilenet_v2", "resnet50", "lenet"], ranks=[1, 2, 4, 8], rounds=15)
    assert len(sample.launches) == 975
    directory = sample.write(tmp_path / "study")
    start = time.process_time()
    formats.FORMATS["html"](content.build(directory))
    assert time.process_time() - start < 5.0


def test_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    first, second = (Sample(models=["lenet"], rounds=1).write(tmp_path / name) for name in "ab")
    assert (first / "launches.jsonl").read_text() == (second / "launches.jsonl").read_text()
    assert json.loads((first / "study.yaml").read_text())["name"] == sample_study.NAME


def test_ratios_are_to_the_base_that_the_study_names(tmp_path: Path) -> None:
    """The schedule narrows the interval of the same ratio; with one rank as the base it is the speed-up."""
    sample = Sample(engines=["ours", "torch-ddp"], models=["lenet"], ranks=[1, 2])
    built = content.build(sample.write(tmp_path / "ranks", base={"ranks": 1}))
    assert [summary.is_base for summary in built.summaries] == [True, False, True, False]
    assert [summary.ratio == summary.speed_up for summary in built.summaries] == [True] * 4
    assert built.summaries[1].ratio is not None
    assert "ratio to ranks 1" in built.tables[0].headings
    assert [bool(row["ratio_to_base"]) for row in rows(formats.FORMATS["csv"](built))] == [False, True, False, True]
    both = content.build(sample.write(tmp_path / "both", base={"engine": "ours", "ranks": 1}))
    assert [summary.is_base for summary in both.summaries] == [True, False, False, False]
    assert all(summary.ratio for summary in both.summaries[1:])


def test_ratios_without_a_base_are_to_the_same_engine_as_in_the_schedule(tmp_path: Path) -> None:
    engines, models = ["ours", "torch-ddp", "ray-torch"], ["lenet", "resnet20"]
    lost = {"model": "lenet", "engine": "ours"}
    of = study(engines=engines, models=models, datasets="cifar10", batch=[64], ranks=[2], exclude=[lost])
    every = matrix.cells(of, slots=1)
    sample = Sample(engines=engines, models=models, ranks=[2])
    sample.launches = [launch for launch in sample.launches if launch.cell in every]
    built = content.build(sample.write(tmp_path / "study", base={}))
    bases = {summary.cell.key for summary in built.summaries if summary.is_base}
    assert bases == {base.key for cell in every if (base := matrix.base_of(of, cell, every))}
    compared = [(summary.cell.model, summary.cell.engine) for summary in built.summaries if summary.ratio]
    assert compared == [("resnet20", "torch-ddp"), ("resnet20", "ray-torch")]
    assert built.facts["ratios are to"] == "ours"


def test_base_of_a_replaced_data_set_is_the_one_that_stands_for_it(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=6)
    for number, launch in enumerate(sample.launches):
        if launch.cell.ranks == 2:
            cell = launch.cell.model_copy(update={"dataset": "mnist", "ranks": 1})
            sample.launches[number] = launch.model_copy(update={"cell": cell, "key": cell.key})
    about = {"datasets": ["imagenet", "mnist"], "shrink": {"datasets": {"imagenet": "cifar10"}}, "shrunk": True}
    built = content.build(sample.write(tmp_path / "study", base={"dataset": "imagenet"}, **about))
    compared = [(summary.cell.dataset, summary.is_base, summary.ratio is not None) for summary in built.summaries]
    assert compared == [("cifar10", True, False), ("mnist", False, True)]


def test_empty_until_of_the_shrunk_study_has_no_accuracy_to_reach(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=1)
    directory = sample.write(tmp_path / "study", until={"top1": 0.5}, shrink={"until": {}}, shrunk=True)
    assert study_directory.read(directory).about.target_top1 is None


def test_base_of_nodes_is_found_though_its_ranks_differ(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2])
    for number, launch in enumerate(sample.launches):
        cell = launch.cell.model_copy(update={"nodes": launch.cell.ranks})
        sample.launches[number] = launch.model_copy(update={"cell": cell, "key": cell.key})
    built = content.build(sample.write(tmp_path / "study", base={"nodes": 1}))
    assert [summary.is_base for summary in built.summaries] == [True, False]
    assert built.summaries[1].ratio is not None


def accurate(directory: Path, epochs: list[int | None]) -> Report:
    """Report launches of which each reached the accuracy at the end of an epoch of ten seconds, or did not."""
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=len(epochs))
    first = dict(zip((launch.run for launch in sample.launches if not launch.again), epochs, strict=True))
    for number, run in enumerate(sample.results):
        reached = first.get(run.run) or len(run.epochs) + 1
        learned = [
            epoch.model_copy(update={"seconds": 10.0, "test_seconds": 0.0,
                                     "test": epoch.test.model_copy(update={"top1": 0.8 * (epoch.epoch >= reached)})})
            for epoch in run.epochs
        ]  # fmt: skip
        sample.results[number] = run.model_copy(update={"epochs": learned})
    return content.build(sample.write(directory, until={"top1": 0.75}))


@pytest.mark.parametrize(
    ("epochs", "shown", "csv_values"),
    [
        ([2, 3, 4, 5, 6, 7], "45.00 [20.00, 70.00], 6 of 6", ["45.0", "20.0", "70.0", "6", "6"]),
        ([2, 3, 4, 5, 6, None], "45.00 [> 20.00], 5 of 6", ["45.0", "20.0", "not reached", "6", "5"]),
        ([2, None, None, None, None, None], "not reached, 1 of 6", ["not reached", "20.0", "not reached", "6", "1"]),
        ([None, None], "not reached, 0 of 2", ["not reached", "", "", "2", "0"]),
    ],
)
def test_launches_that_did_not_reach_the_accuracy_count(
    tmp_path: Path, epochs: list[int | None], shown: str, csv_values: list[str]
) -> None:
    built = accurate(tmp_path / "study", epochs)
    (table,) = (each for each in built.tables if each.title.startswith("Accuracy"))
    assert table.rows[0][list(table.headings).index("s to top-1 75.0 %")] == shown
    (row,) = rows(formats.FORMATS["csv"](built))
    ends = [row[f"seconds_to_accuracy{end}"] for end in ("", "_low", "_high", "_n")]
    assert [*ends, row["reached_accuracy"]] == csv_values
    assert "not reached" in formats.FORMATS["latex"](built) or "not" not in shown


@pytest.mark.parametrize(("name", "label"), [("mine", "mine"), ("my_net 2", "my-net-2"), ("\u6d4b", "study")])
def test_latex_labels_begin_with_the_name_of_the_study(tmp_path: Path, name: str, label: str) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1], rounds=2)
    text = formats.FORMATS["latex"](content.build(sample.write(tmp_path / "study", name=name)))
    assert re.findall(r"\\label\{(.*)\}", text) == [f"tab:{label}-1", f"tab:{label}-2"]


def test_nodes_with_an_idle_head_are_one_curve(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2])
    for number, launch in enumerate(sample.launches):
        cell = launch.cell.model_copy(update={"nodes": launch.cell.ranks + 1})
        sample.launches[number] = launch.model_copy(update={"cell": cell, "key": cell.key})
    built = content.build(sample.write(tmp_path / "study", base={"nodes": 2}))
    assert {summary.series for summary in built.summaries} == {"ours"}
    assert built.summaries[1].speed_up is not None


def test_small_ratio_to_a_published_number_keeps_its_digits(tmp_path: Path) -> None:
    sample = Sample(engines=["ours"], models=["resnet20"], ranks=[1], rounds=1)
    measured = sample.launches[0].images_per_second or 0.0
    numbers = [
        {"cell": {}, "metric": "images_per_second", "value": measured / ratio, "source": "t"}
        for ratio in (2.126e-4, 0.0126, 2.126, 21.26)
    ]
    built = content.build(sample.write(tmp_path / "study", published=numbers))
    (table,) = (table for table in built.tables if table.title == "Published numbers")
    assert [row[5] for row in table.rows] == ["0.0002126", "0.013", "2.126", "21.26"]
