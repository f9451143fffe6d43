"""The bottleneck of a run matches its split, and its advice exists in this tool."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import typer

from orchestrator.bottleneck import Explanation, explain, split
from orchestrator.cli import app
from orchestrator.schema import Results, StepTimes, Unfinished, World
from tests import builders


def results(*ranks: Sequence[float], steps: Sequence[int] = (100,), **config: Any) -> Results:
    """Return a run whose ranks took these milliseconds of input, compute and communication in every step."""
    parts = [[part / 1e3 for part in parts] for parts in zip(*ranks, strict=True)]
    names = ("input_seconds", "compute_seconds", "communication_seconds")
    epochs = [builders.epoch(n, steps=s, **dict(zip(names, parts, strict=True))) for n, s in enumerate(steps, start=1)]
    world = World(size=len(ranks), hosts=[f"demo-worker-{number}" for number in range(len(ranks))])
    return builders.results(epochs, world=world, **config)


def explained(*ranks: Sequence[float], **config: Any) -> Explanation:
    explanation = explain(results(*ranks, **config))
    assert explanation is not None
    return explanation


def test_steps_that_wait_for_data_are_input_bound() -> None:
    explanation = explained((190, 300, 10), (190, 290, 20))
    assert (explanation.bound, round(explanation.share, 3)) == ("input", 0.38)
    assert str(explanation).startswith(
        "input-bound: 38 % of the step waits for data. To try: more cores per rank (each has "
    )
    assert "a larger --batch-size does not help" in explanation.advice[-1]


def test_equal_ranks_that_wait_for_gradients_are_network_bound() -> None:
    explanation = explained((5, 300, 195), (5, 305, 190))
    assert (explanation.bound, round(explanation.share, 3)) == ("network", 0.38)
    assert explanation.finding == "network-bound: 38 % of the step waits for the exchange of gradients"


def test_run_that_computes_is_compute_bound() -> None:
    explanation = explained((5, 450, 45), (5, 455, 40))
    assert (explanation.bound, round(explanation.share, 3)) == ("compute", 0.905)
    assert explanation.finding == "compute-bound: 90 % of the step is spent computing, the best case"


def test_single_rank_has_no_communication() -> None:
    assert explained((5, 495, 0)).bound == "compute"
    assert explained((95, 400, 5)).bound == "input"


def test_wait_for_a_slower_rank_is_not_the_networks() -> None:
    explanation = explained((5, 350, 145), (5, 490, 5), (5, 340, 155), (5, 360, 135))
    assert (explanation.bound, round(explanation.share, 3)) == ("straggler", 0.28)
    finding = "one rank is slow: rank 1 on demo-worker-1 computes 1.4 x as long as the median of the others"
    assert explanation.finding == f"{finding}; 28 % of the step is spent waiting for it"


def test_slower_of_two_ranks_is_compared_with_the_faster() -> None:
    explanation = explained((5, 490, 5), (5, 350, 145))
    assert "rank 0 on demo-worker-0 computes 1.4 x as long as the other;" in explanation.finding


def test_single_rank_that_waits_for_data_is_named() -> None:
    explanation = explained((205, 290, 5), (2, 300, 198), (3, 295, 202))
    assert explanation.bound == "straggler"
    assert (
        "rank 0 on demo-worker-0 waits 205 ms per step for data, the median of the others 2 ms;" in explanation.finding
    )


def test_half_of_the_ranks_slow_does_not_blame_the_network() -> None:
    assert explained((5, 300, 195), (5, 300, 195), (5, 490, 5), (5, 490, 5)).bound == "straggler"


def test_single_faster_rank_is_no_fault() -> None:
    assert explained((5, 300, 195), (5, 485, 10), (5, 485, 10), (5, 485, 10)).bound == "compute"


def test_larger_of_two_causes_is_named() -> None:
    assert explained((100, 200, 200), (100, 200, 200)).bound == "network"
    assert explained((200, 200, 100), (200, 200, 100)).bound == "input"


@pytest.mark.parametrize(("waited", "bound"), [((49, 450, 1), "compute"), ((50, 449, 1), "input"),
                                               ((5, 421, 74), "compute"), ((5, 420, 75), "network")])  # fmt: skip
def test_loss_within_the_noise_between_runs_is_no_cause(waited: tuple[float, ...], bound: str) -> None:
    assert explained(waited, waited).bound == bound


def test_results_without_a_split_have_no_bottleneck() -> None:
    assert explain(builders.results([builders.epoch(1)])) is None
    assert explain(builders.results([])) is None
    assert explain(results((0, 0, 0))) is None
    assert explain(results((5e-321, 0, 0), (0, 0, 0))) is None  # a mean of 0


def test_epochs_count_by_steps_without_the_first_of_the_run() -> None:
    first, second = results((0, 100, 0), steps=[11]).epochs[0], results((300, 100, 0), steps=[41]).epochs[0]
    epochs = [first, second.model_copy(update={"epoch": 2})]
    [rank] = split(builders.results(epochs, world=World(size=1, hosts=["here"])))
    assert rank == pytest.approx(StepTimes(0.3 * 30 / 40, 0.1, 0.0))


def test_epochs_of_another_number_of_ranks_are_left_out() -> None:
    one_rank, two_ranks = results((400, 100, 0), steps=[11]), results((0, 450, 50), (0, 450, 50), steps=[11, 21])
    mixed = two_ranks.model_copy(update={"epochs": [one_rank.epochs[0], two_ranks.epochs[1]]})
    assert split(mixed) == split(two_ranks)


def test_epochs_of_the_resumed_run_are_left_out() -> None:
    before, own = results((0, 400, 100), (400, 100, 0), steps=[11]), results((5, 490, 5), (5, 490, 5), steps=[11, 31])
    mixed = own.model_copy(update={"epochs": [before.epochs[0], own.epochs[1]], "epochs_before": 1, "steps_before": 11})
    assert split(mixed) == [pytest.approx(StepTimes(0.005, 0.490, 0.005))] * 2
    assert explain(mixed.model_copy(update={"epochs": before.epochs})) is None


def test_unfinished_last_epoch_counts() -> None:
    rest = Unfinished(steps=30, input_seconds=[0.3], compute_seconds=[0.1], communication_seconds=[0.0])
    stopped = results((0, 100, 0), steps=[11]).model_copy(update={"unfinished": rest})
    assert split(stopped) == [pytest.approx(StepTimes(0.3 * 30 / 40, 0.1, 0.0))]
    explanation = explain(stopped.model_copy(update={"epochs": []}))
    assert explanation is not None
    assert explanation.bound == "input"


def test_measured_options_without_a_gain_are_not_advised() -> None:
    slow = results((5, 300, 195), (5, 300, 195), precision="bfloat16", compression="none")
    busy = results((5, 495, 0), precision="float32")
    for measured, chosen, advised in ((slow, "compression", "--compression"), (busy, "precision", "--precision")):
        explanations = [explain(measured.model_copy(update={"chosen": chosen})) for chosen in ([], [chosen])]
        assert [advised in str(explanation) for explanation in explanations] == [True, False]


def test_advice_for_adasum_is_limited_to_compatible_options() -> None:
    text = str(explained((5, 300, 195), (5, 300, 195), adasum=True))
    assert "--compression fp16" in text
    assert "bf16" not in text


EVERY = [
    explained(*ranks, dataset=dataset, precision=precision, compression=compression)
    for ranks in ([(200, 300, 0)], [(5, 300, 195)] * 2, [(5, 495, 0)], [(5, 490, 5), (5, 300, 195)])
    for dataset in ("imagenet", "mnist")
    for precision in ("float32", "bfloat16")
    for compression in ("none", "bf16")
]


def test_every_advised_option_and_command_exists() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {option for parameter in commands["train"].params for option in parameter.opts}
    advice = [advised for explanation in EVERY for advised in explanation.advice]
    assert {name for text in advice for name in re.findall(r"--[a-z0-9-]+", text)} <= options
    assert {name for text in advice for name in re.findall(r"`orchestrator ([a-z-]+)", text)} <= set(commands)
    assert all(explanation.advice for explanation in EVERY)


@pytest.mark.parametrize(
    ("path", "advised"),
    [
        ("/shared/data/imagenet-1", "`orchestrator data prepare`, then `orchestrator data stage`"),
        ("/shared/data/imagenet-1-records", "if cores are idle, `orchestrator data stage`"),
        ("/var/lib/orchestrator/data/imagenet-1-records", "faster disks, if cores are idle"),
    ],
)
def test_input_advice_fits_the_kind_of_data(path: str, advised: str) -> None:
    run = results((190, 300, 10), dataset="imagenet").model_copy(update={"data_path": path})
    assert advised in str(explain(run))


def test_options_already_in_use_are_not_advised() -> None:
    slow_network = [(5, 300, 195)] * 2
    assert "--compression bf16" in str(explained(*slow_network))
    assert "--compression" not in str(explained(*slow_network, compression="fp16"))
    assert "--precision" not in str(explained((5, 495, 0), precision="bfloat16"))


def test_explanation_is_one_line() -> None:
    assert not any("\n" in str(explanation) for explanation in EVERY)
