"""Comparison of two runs: equal weights, scores within a tolerance, and the names of different fields."""

from typing import Any

import pytest

from orchestrator.reproduction.comparison import Comparison, Tolerance, compare
from orchestrator.schema import Failure, Results, RunStatus, Scores
from orchestrator.schema.packages import Installed
from tests import builders
from tests.unit.reproduction import cases

OTHER = "b2"


def again(top1: float = 0.9, loss: float = 0.25, weights: str = OTHER, **changes: Any) -> Results:
    """Return the results of the same run with these scores and weights in its last epoch."""
    test = Scores(loss=loss, top1=top1, top5=1.0, images=1000)
    last = builders.epoch(2, weights_sha256=weights, test=test)
    return cases.TRAINED.model_copy(update={"epochs": [cases.TRAINED.epochs[0], last], **changes})


def compared(**changes: Any) -> Comparison:
    old = cases.loaded()
    return compare(old, cases.loaded(**changes), Tolerance())


def test_identical_run_is_equal() -> None:
    comparison = compared()
    assert (comparison.verdict, comparison.differences, comparison.expected_equal) == ("equal", [], True)
    assert [row[:2] for row in comparison.epochs] == [(1, True), (2, True)]


def test_run_that_writes_its_network_is_compared_without_that() -> None:
    config = cases.TRAINED.config.model_copy(update={"save_model": True})
    comparison = compared(results=cases.TRAINED.model_copy(update={"config": config}))
    assert (comparison.verdict, comparison.differences) == ("equal", [])


def test_equal_weights_are_equal_despite_other_differences() -> None:
    comparison = compared(run=builders.run(threads=4, hardware={}))
    assert (comparison.verdict, comparison.expected_equal) == ("equal", False)
    assert [(d.field, d.was, d.now, d.decisive) for d in comparison.differences] == [("threads", 2, 4, True)]


def test_other_weights_of_the_same_machine_are_different() -> None:
    comparison = compared(results=again())
    assert comparison.verdict == "different"
    assert "weights differ, though nothing that decides on them does" in comparison.reason


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [({}, "within tolerance"), ({"top1": 0.891}, "within tolerance"), ({"top1": 0.88}, "different"),
     ({"loss": 0.27}, "within tolerance"), ({"loss": 0.3}, "different")],
)  # fmt: skip
def test_scores_are_compared_within_tolerance_on_other_machines(scores: Any, verdict: str) -> None:
    comparison = compared(results=again(**scores), run=builders.run(threads=4))
    assert comparison.verdict == verdict
    assert "tolerance: test top-1 within 1 points, test loss within 10%" in comparison.reason


@pytest.mark.parametrize(
    ("first", "differs"),
    [
        ({"learning_rate": 0.05}, "learning rate of epoch 1"),
        ({"images_per_second_per_rank": [200.0]}, "ranks of epoch 1"),
    ],
)
def test_resume_with_other_ranks_or_epochs_expects_no_equal_weights(first: dict[str, Any], differs: str) -> None:
    """The repetition has the last options in its first epochs, too."""
    epochs = [builders.epoch(1, weights_sha256="a1", **first), cases.TRAINED.epochs[1]]
    resumed = cases.TRAINED.model_copy(update={"epochs": epochs, "resumed_from": "resnet20-mnist-0"})
    comparison = compare(cases.loaded(results=resumed), cases.loaded(results=again()), Tolerance())
    assert (comparison.verdict, comparison.expected_equal) == ("within tolerance", False)
    assert [(d.field, d.decisive) for d in comparison.differences] == [(differs, True)]


def test_resume_with_the_same_options_expects_equal_weights() -> None:
    resumed = cases.TRAINED.model_copy(update={"resumed_from": "resnet20-mnist-0"})
    comparison = compare(cases.loaded(results=resumed), cases.loaded(results=again()), Tolerance())
    assert (comparison.verdict, comparison.differences, comparison.expected_equal) == ("different", [], True)


def test_fewer_epochs_are_different() -> None:
    comparison = compared(results=cases.TRAINED.model_copy(update={"epochs": cases.TRAINED.epochs[:1]}))
    assert (comparison.verdict, comparison.reason) == ("different", "1 of 2 epochs were made")


def test_every_different_field_is_named() -> None:
    old = cases.loaded()
    nodes = {
        name: node.model_copy(update={"hardware": builders.hardware(cpu_model="EPYC", cpu_flags=["avx"], kernel="6.8")})
        for name, node in old.provenance.nodes.items()
    }
    changes = {"nodes": nodes, "trainer": "ffff", "orchestrator": "9.9", "settings": {"provider": "gcp"},
               "variables": ["ONEDNN_MAX_CPU_ISA"]}  # fmt: skip
    installed = Installed(image={"keras": "3.1", "numpy": "1.26"}, overlay={"einops": "0.8.0"})
    config = cases.TRAINED.config.model_copy(update={"seed": 2})
    comparison = compare(
        old,
        cases.loaded(
            provenance=old.provenance.model_copy(update=changes),
            packages=installed,
            data="1" * 64,
            results=again(config=config),
        ),
        Tolerance(),
    )
    assert {d.field: d.decisive for d in comparison.differences} == {
        "orchestrator": False, "image": True, "data": True, "variables": True, "CPU": True, "CPU flags": True,
        "kernel": False,
        "package keras": True, "node provider": False, "node nodes": False, "setting seed": True,
    } | {d.field: False for d in comparison.differences if d.field.startswith("node ")}  # fmt: skip
    assert next((d.was, d.now) for d in comparison.differences if d.field == "CPU") == (["Xeon"], ["EPYC"])


def test_other_fusion_threshold_expects_no_equal_weights() -> None:
    """It decides which gradients are added in one message, and so in which order ranks add them."""
    old = cases.loaded()
    run = old.run.model_copy(update={"fusion_threshold": 8})
    comparison = compare(old, cases.loaded(run=run), Tolerance())
    assert [(d.field, d.was, d.now, d.decisive) for d in comparison.differences] == [
        ("fusion threshold", None, 8, True)
    ]
    assert not comparison.expected_equal


def test_only_different_flags_are_shown() -> None:
    old = cases.loaded()
    flags = [f"f{number}" for number in range(100)]
    runs = []
    for own in ("mine", "yours"):
        nodes = {"a": old.provenance.nodes["demo-head"].model_copy(
            update={"hardware": builders.hardware(cpu_flags=sorted([*flags, own]))})}  # fmt: skip
        runs.append(cases.loaded(provenance=old.provenance.model_copy(update={"nodes": nodes})))
    [difference] = compare(runs[0], runs[1], Tolerance()).differences
    assert (difference.was, difference.now) == (["mine"], ["yours"])


def script(numbers: dict[str, float], exit_code: int = 0) -> Any:
    status = RunStatus(state="finished", exit_code=exit_code, started=1.0, ended=2.0)
    return cases.loaded(config=None, results=None, output=numbers, status=status)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (({}, 0), ({}, 0), "equal", "there is no finite number in output/results.json"),
        (({}, 0), ({}, 1), "different", "exit code 1 instead of 0"),
        (({}, 3), ({}, 3), "equal", "exit code 3 as before"),
        (({"loss": 0.5}, 0), ({"loss": 0.5}, 0), "equal", "all 1 numbers"),
        (({"loss": 0.5}, 0), ({"loss": 0.51}, 0), "within tolerance", "loss in output/results.json is 0.51"),
        (({"loss": 0.5}, 0), ({"loss": 0.9}, 0), "different", "is 0.9 instead of 0.5"),
        (({"loss": 0.5}, 0), ({}, 0), "different", "loss in output/results.json is no finite number any more"),
    ],
)
def test_scripts_are_compared_by_exit_code_and_numbers(
    old: tuple[Any, int], new: tuple[Any, int], verdict: str, reason: str
) -> None:
    comparison = compare(script(*old), script(*new), Tolerance())
    assert comparison.verdict == verdict
    assert reason in comparison.reason


@pytest.mark.parametrize(
    ("then", "now", "verdict", "reason"),
    [
        (3, 77, "different", "exit code 77 instead of 3"),
        (3, 3, "equal", "exit code 3 as before"),
        (None, None, "equal", "exit code 1 as before"),
    ],
)
def test_failed_scripts_are_compared_by_the_exit_code_of_the_rank(
    then: int | None, now: int | None, verdict: str, reason: str
) -> None:
    runs = []
    for code in (then, now):
        failure = Failure(reason="rank", host="a", rank=0, exit_code=code)
        status = RunStatus(state="failed", exit_code=1, started=1.0, ended=2.0, failure=failure)
        runs.append(cases.loaded(config=None, results=None, output={}, status=status))
    comparison = compare(runs[0], runs[1], Tolerance())
    assert comparison.verdict == verdict
    assert reason in comparison.reason


def test_failure_of_the_exported_run_is_a_difference() -> None:
    failed = cases.loaded(status=RunStatus(state="failed", exit_code=1, started=1.0, ended=2.0))
    [difference] = compare(failed, cases.loaded(), Tolerance()).differences
    assert (difference.field, difference.was, difference.now) == ("state", "failed", "finished")
    assert not difference.decisive
