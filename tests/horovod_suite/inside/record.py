"""Plugin of pytest inside the image: write a JSON line when a test starts and when it ends.

A file of lines survives a rank that is killed, crashes or waits for another rank forever.
"""

import json
import os
from typing import Any

import pytest

RANK = os.environ.get("HOROVOD_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
RECORD = os.environ.get("HOROVOD_SUITE_RECORD", ".")
MESSAGE_LENGTH = 600
with_subtests: set[str] = set()


def write(**entry: Any) -> None:
    """Append a line to the record of this rank."""
    with open(f"{RECORD}/{RANK}.jsonl", "a", encoding="utf-8") as file:  # noqa: PTH123  # a test may patch Path
        file.write(json.dumps(entry) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deselect the tests that have a result already."""
    with open(f"{RECORD}/known.json", encoding="utf-8") as file:  # noqa: PTH123
        completed = set(json.load(file))
    items[:] = [item for item in items if item.nodeid not in completed]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write that a test starts."""
    write(test=nodeid, outcome="started")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test, or a part of it, ended; a test with parts ends like its worst part."""
    if isinstance(report, pytest.SubtestReport):
        with_subtests.add(report.nodeid)
    elif report.passed and report.nodeid in with_subtests:
        return
    if report.failed:
        write(test=report.nodeid, outcome="failed", reason=_message(report))
    elif report.skipped:
        write(test=report.nodeid, outcome="skipped", reason=_message(report))
    elif report.when == "call":
        write(test=report.nodeid, outcome="passed", reason="")


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write that a test is over."""
    write(test=nodeid, outcome="finished")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write that a file could not be imported, or is skipped as a whole."""
    if report.failed or report.skipped:
        write(test=report.nodeid, outcome="failed" if report.failed else "skipped", reason=_message(report))


def _message(report: Any) -> str:
    """Return the reason of a skip, else the line of the exception."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:MESSAGE_LENGTH]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr or "").strip().rpartition("\n")[2]
    return str(text)[:MESSAGE_LENGTH]
