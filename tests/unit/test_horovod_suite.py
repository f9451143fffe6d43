"""Reading, merging and showing results of Horovod's own tests and examples."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.horovod_suite import examples, plan, reasons, results, table
from tests.horovod_suite.examples import Example
from tests.horovod_suite.plan import Run
from tests.horovod_suite.results import Record, Result
from tests.horovod_suite.table import Ran

KERAS = Run("parallel/test_tensorflow2_keras.py", "gloo")
LEGACY = Result("parallel/test_tensorflow2_keras.py::Tf2KerasTests::test_legacy_optimizer", "failed")


def record(directory: Path, *entries: dict[str, Any]) -> Record:
    path = directory / "0.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"test": "cut')
    return results.read(path)


def record_of(*pairs: tuple[str, str], waiting_in: str = "") -> Record:
    order = [test for test, _ in pairs] + ([waiting_in] if waiting_in else [])
    return Record({test: Result(test, outcome) for test, outcome in pairs}, order, waiting_in)


def outcomes(*records: Record) -> dict[str, str]:
    return {test: result.outcome for test, result in results.merge(records, "did not end").items()}


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["skipped", "skipped"], "skipped"),
        (["skipped", "passed"], "passed"),
        (["passed", "failed"], "failed"),
        (["failed", "passed"], "failed"),
    ],
)
def test_result_of_a_test_is_the_worst_of_its_parts(tmp_path: Path, parts: list[str], whole: str) -> None:
    entries = [{"test": "a", "outcome": outcome, "reason": ""} for outcome in ("started", *parts, "finished")]
    assert record(tmp_path, *entries).ended["a"].outcome == whole


def test_killed_rank_leaves_its_test_open(tmp_path: Path) -> None:
    read = record(tmp_path, {"test": "a", "outcome": "started"})
    assert (read.open, read.ended) == ("a", {})


def test_failure_on_one_rank_fails_the_test() -> None:
    assert outcomes(record_of(("a", "passed"), ("b", "skipped")), record_of(("a", "failed"), ("b", "passed"))) == {
        "a": "failed",
        "b": "passed",
    }


def test_slowest_rank_decides_which_test_did_not_end() -> None:
    """Rank 0 failed in b and waits in c for rank 1, which waits in b; c is tried again."""
    ahead = record_of(("a", "passed"), ("b", "failed"), waiting_in="c")
    behind = record_of(("a", "passed"), waiting_in="b")
    assert outcomes(ahead, behind) == {"a": "passed", "b": "failed"}
    assert results.merge([behind], "did not end")["b"].reason == "did not end"


def test_failure_without_a_known_reason_is_named() -> None:
    failure = Result(LEGACY.test, "failed", "ImportError: `keras.optimizers.legacy` is not supported")
    other = Result(LEGACY.test, "failed", "Segmentation fault")
    assert Ran(KERAS, (failure,)).unknown() == []
    assert Ran(KERAS, (other,)).unknown() == [other]
    assert "not known yet: Segmentation fault" in table.text([KERAS], [Ran(KERAS, (other,))])


def test_share_excludes_skipped_tests() -> None:
    three = tuple(Result(outcome, outcome) for outcome in ("passed", "failed", "skipped"))
    assert table.share([Ran(KERAS, three)]) == (1, 2)
    assert "1 of 2 tests that apply passed: 50.0%" in table.text([KERAS], [Ran(KERAS, three)])


def test_excluded_files_are_in_the_table_with_the_reason() -> None:
    xla = Run("parallel/test_xla.py", "gloo")
    assert reasons.excluded(xla.file)
    assert f"| `{xla.file}` | {reasons.excluded(xla.file)} |" in table.text([xla], [])


def test_keras_tests_run_with_both_versions_over_both_transports(tmp_path: Path) -> None:
    for name in ("parallel/test_tensorflow2_keras.py", "parallel/test_torch.py", "single/test_run.py"):
        (tmp_path / "test" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "test" / name).touch()
    assert [run.name for run in plan.runs(tmp_path)] == [
        *("test_tensorflow2_keras-gloo-keras3", "test_tensorflow2_keras-gloo-keras2", "test_torch-gloo-pytorch"),
        *("test_tensorflow2_keras-mpi-keras3", "test_tensorflow2_keras-mpi-keras2", "test_torch-mpi-pytorch"),
        "test_run-keras3",
    ]


@pytest.mark.parametrize(
    ("seconds", "output", "code", "works"),
    [
        (0, "Step #0\tLoss: 2.3\nStep #10\tLoss: 0.5", 0, True),
        (0, "Step #0\tLoss: 2.3\nTraceback", 1, False),
        (120, "loss: 2.3 - loss: 0.5\nstopped", 1, True),
        (120, "loss: 0.5 - loss: 2.3\nstopped", 1, False),
        (120, "no such module", 1, False),
    ],
)
def test_example_works_if_it_ends_or_its_loss_falls(seconds: int, output: str, code: int, works: bool) -> None:
    example = Example("tensorflow2/tensorflow2_mnist.py", seconds=seconds)
    assert examples.judge(example, output, code, 130.0).works == works
