"""The results as a Markdown table: passed, failed and skipped by file, and the reasons of tests that did not pass."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.horovod_suite import reasons, results
from tests.horovod_suite.plan import Run
from tests.horovod_suite.results import Result

UNKNOWN = "not known yet"


@dataclass(frozen=True)
class Ran:
    """A run with its results."""

    run: Run
    results: tuple[Result, ...]

    def having(self, outcome: str) -> list[Result]:
        """Return the results with an outcome."""
        return [result for result in self.results if result.outcome == outcome]

    def unknown(self) -> list[Result]:
        """Return the failures without a known reason."""
        return [result for result in self.having("failed") if not reasons.known(self.run, result)]


def load_results(runs: Iterable[Run], directory: Path) -> list[Ran]:
    """Return the runs that have results in a directory, from this call or an earlier one."""
    paths = [(run, directory / f"{run.name}.json") for run in runs]
    return [Ran(run, tuple(results.load(path))) for run, path in paths if path.exists()]


def text(runs: Iterable[Run], ran: Iterable[Ran]) -> str:
    """Return the whole table."""
    ran, runs = list(ran), list(runs)
    parts = [_counts(ran), _failures(ran), _changes(), _skipped(ran), _rest(runs, ran)]
    return "# Horovod's own tests\n\n" + "\n\n".join("\n".join(part) for part in parts) + "\n"


def share(ran: Iterable[Ran]) -> tuple[int, int]:
    """Return how many tests passed, and how many passed or failed."""
    counts = Counter(result.outcome for each in ran for result in each.results)
    return counts["passed"], counts["passed"] + counts["failed"]


def _counts(ran: list[Ran]) -> Iterator[str]:
    yield "| tests | transport | with | passed | failed | skipped |"
    yield "|---|---|---|---|---|---|"
    for each in ran:
        numbers = [str(len(each.having(outcome))) for outcome in ("passed", "failed", "skipped")]
        run = each.run
        yield "| " + " | ".join([f"`{run.file}`", run.transport or "its own", run.framework_name, *numbers]) + " |"
    passed, all_of_them = share(ran)
    yield ""
    yield f"{passed} of {all_of_them} tests that apply passed: {passed / max(all_of_them, 1):.1%}."


def _failures(ran: list[Ran]) -> Iterator[str]:
    yield "## Failed\n\n| test | run | reason |\n|---|---|---|"
    for each in ran:
        for result in each.having("failed"):
            reason = reasons.known(each.run, result) or f"{UNKNOWN}: {_cell(result.reason)}"
            yield f"| `{result.test.rpartition('::')[2]}` | {each.run.name} | {reason} |"


def _changes() -> Iterator[str]:
    yield "## Changed before it ran\n\n| tests | change | reason |\n|---|---|---|"
    for change in reasons.changes():
        yield f"| `{change.tests}` | `{change.old}` became `{change.new}` | {change.reason} |"


def _skipped(ran: list[Ran]) -> Iterator[str]:
    yield "## Skipped by the tests themselves\n\n| tests | their reason |\n|---|---|"
    counts = Counter(_cell(result.reason) for each in ran for result in each.having("skipped"))
    yield from (f"| {count} | {reason} |" for reason, count in counts.most_common())


def _rest(runs: list[Run], ran: list[Ran]) -> Iterator[str]:
    yield "## Not run\n\n| tests | reason |\n|---|---|"
    completed = {each.run for each in ran}
    for file in dict.fromkeys(run.file for run in runs if reasons.excluded(run.file)):
        yield f"| `{file}` | {reasons.excluded(file)} |"
    for run in runs:
        if run not in completed and not reasons.excluded(run.file):
            yield f"| {run.name} | was not asked for |"


def _cell(reason: str) -> str:
    return " ".join(reason.removeprefix("Skipped: ").split()).replace("|", "\\|")[:300]
