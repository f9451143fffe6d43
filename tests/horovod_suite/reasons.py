"""Known reasons, in reasons.yaml, why tests of Horovod fail, do not apply or are changed."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml

from tests.horovod_suite.plan import Run
from tests.horovod_suite.results import Result

FILE = Path(__file__).with_name("reasons.yaml")


@dataclass(frozen=True)
class Reason:
    """An entry of reasons.yaml; each field except ``reason`` narrows the results that it covers.

    ``tests`` is a pattern of test names, ``message`` a part of the failure's message, ``run`` a part of a run's name.
    """

    tests: str
    reason: str
    message: str = ""
    run: str = ""

    def covers(self, run: Run, result: Result) -> bool:
        """Return whether this is the reason of a result."""
        matches = fnmatchcase(result.test, self.tests)
        return matches and self.message in result.reason and self.run in run.name


@dataclass(frozen=True)
class Change:
    """Text ``old`` of a test file that is replaced by ``new`` before it runs."""

    tests: str
    old: str
    new: str
    reason: str


@cache
def _lists() -> dict[str, list[dict[str, str]]]:
    return dict(yaml.safe_load(FILE.read_text()))


def _entries(kind: str) -> list[Reason]:
    return [Reason(**entry) for entry in _lists()[kind]]


def changes() -> list[Change]:
    """Return the changes of Horovod's tests."""
    return [Change(**entry) for entry in _lists()["changes"]]


def excluded(file: str) -> str:
    """Return why a test file does not apply to the images, or ""."""
    return next((entry.reason for entry in _entries("files") if fnmatchcase(file, entry.tests)), "")


def known(run: Run, result: Result) -> str:
    """Return the known reason of a failure, or ""."""
    return next((entry.reason for entry in _entries("failures") if entry.covers(run, result)), "")
