"""Results of the tests of one file: read from the records of its ranks, and stored between calls."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WORST_FIRST = ("failed", "passed", "skipped")


@dataclass(frozen=True)
class Result:
    """Outcome of a test on all ranks together, and the reason unless it passed."""

    test: str
    outcome: str
    reason: str = ""


@dataclass
class Record:
    """Record of one rank: results by test, and the tests that started and did not end."""

    ended: dict[str, Result]
    order: list[str]
    open: str = ""


def read(path: Path) -> Record:
    """Read the record of a rank; its last line may be truncated."""
    record = Record({}, [])
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        _add(record, entry)
    return record


def _add(record: Record, entry: Mapping[str, Any]) -> None:
    test, outcome = entry["test"], entry["outcome"]
    if outcome == "started":
        record.open = test
        record.order.append(test)
    elif outcome == "finished":
        record.open = ""
    else:
        _keep_worst(record.ended, Result(test, outcome, entry["reason"]))


def _keep_worst(ended: dict[str, Result], result: Result) -> None:
    """Add the result of a part of a test, or of a rank: a failure overrides a pass, which overrides a skip."""
    earlier = ended.get(result.test)
    if earlier is None or WORST_FIRST.index(result.outcome) < WORST_FIRST.index(earlier.outcome):
        ended[result.test] = result


def merge(records: Iterable[Record], ending: str) -> dict[str, Result]:
    """Return the results of all ranks together.

    A test that fails on one rank has failed; one that is skipped on one rank and passes on another has passed. Ranks
    that wait for a rank wait in later tests than that rank does: the first test without an end is the one that did not
    end, and later tests count as not run.

    Args:
        records: One for each rank.
        ending: Why the run ended, the reason for a test without an end.

    Returns:
        Results by test.
    """
    records = list(records)
    results: dict[str, Result] = {}
    for result in (result for record in records for result in record.ended.values()):
        _keep_worst(results, result)
    behind = min((record for record in records if record.open), key=lambda r: len(r.order), default=None)
    if behind is not None:
        completed = set(behind.order)
        results = {
            test: result for test, result in results.items() if test in completed or test not in _started(records)
        }
        _keep_worst(results, Result(behind.open, "failed", ending))
    return results


def _started(records: Iterable[Record]) -> set[str]:
    return {test for record in records for test in record.order}


def save(path: Path, results: Mapping[str, Result]) -> None:
    """Write results as JSON."""
    path.write_text(json.dumps([asdict(result) for result in results.values()], indent=1) + "\n")


def load(path: Path) -> list[Result]:
    """Read results that `save` wrote."""
    return [Result(**entry) for entry in json.loads(path.read_text())]
