"""What a run is said to be held up by: true of its split, and what it advises can be done with this tool."""

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
    """A run whose ranks took these milliseconds of input, compute and communication in every step."""
    parts = [[part / 1e3 for part in parts] for parts in zip(*ranks, strict=True)]
    names = ("input_seconds", "compute_seconds", "communication_seconds")
    epochs = [builders.epoch(n, steps=s, **dict(zip(names, parts, strict=True))) for n, s in enumerate(steps, start=1)]
    world = World(size=len(ranks), hosts=[f"demo-worker-{number}" for number in range(len(ranks))])
    return builders.results(epochs, world=world, **config)


def explained(*ranks: Sequence[float], **config: Any) -> Explanation:
    explanation = explain(results(*ranks, **config))
    assert explanation is not None
    return explanation


def test_a_run_whose_steps_wait_for_data_is_input_bound() -> None:
    explanation = explained((190, 300, 10), (190, 290, 20))
    assert (explanation.bound, round(explanation.share, 3)) == ("input", 0.38)
    assert str(explanation).startswith(
        "input-bound: 38 % of the step waits for data. To try: more cores per rank (each has "
    )
    assert "a larger --batch-size does not help" in explanation.advice[-1]


def test_a_run_whose_ranks_are_alike_and_wait_for_gradients_is_network_bound() -> None:
    explanation = explained((5, 300, 195), (5, 305, 190))
    assert (explanation.bound, round(explanation.share, 3)) == ("network", 0.38)
    assert explanation.finding == "network-bound: 38 % of the step waits for the exchange of gradients"


def test_a_run_that_computes_is_as_it_should_be() -> None:
    explanation = explained((5, 450, 45), (5, 455, 40))
    assert (explanation.bound, round(explanation.share, 3)) == ("compute", 0.905)
    assert explanation.finding == "compute-bound: 90 % of the step is spent computing, the best case"


def test_a_run_on_one_rank_waits_for_nobody() -> None:
    assert explained((5, 495, 0)).bound == "compute"
    assert explained((95, 400, 5)).bound == "input"


def test_the_wait_for_one_rank_that_computes_longer_is_not_the_networks() -> None:
    explanation = explained((5, 350, 145), (5, 490, 5), (5, 340, 155), (5, 360, 135))
    assert (explanation.bound, round(explanation.share, 3)) == ("straggler", 0.28)
    finding = "one rank is slow: rank 1 on demo-worker-1 computes 1.4 x as long as the median of the others"
    assert explanation.finding == f"{finding}; 28 % of the step is spent waiting for it"


def test_of_two_ranks_the_slower_one_is_compared_with_the_other() -> None:
    explanation = explained((5, 490, 5), (5, 350, 145))
    assert "rank 0 on demo-worker-0 computes 1.4 x as long as the other;" in explanation.finding


def test_a_rank_that_alone_waits_for_data_is_named_with_what_it_waits_for() -> None:
    explanation = explained((205, 290, 5), (2, 300, 198), (3, 295, 202))
    assert explanation.bound == "straggler"
    assert (
        "rank 0 on demo-worker-0 waits 205 ms per step for data, the median of the others 2 ms;" in explanation.finding
    )


def test_where_half_of_the_ranks_are_slow_the_network_is_not_blamed_either() -> None:
    assert explained((5, 300, 195), (5, 300, 195), (5, 490, 5), (5, 490, 5)).bound == "straggler"


def test_one_rank_that_is_faster_than_all_others_is_no_fault() -> None:
    assert explained((5, 300, 195), (5, 485, 10), (5, 485, 10), (5, 485, 10)).bound == "compute"


def test_of_two_causes_the_larger_one_is_named() -> None:
    assert explained((100, 200, 200), (100, 200, 200)).bound == "network"
    assert explained((200, 200, 100), (200, 200, 100)).bound == "input"


@pytest.mark.parametrize(("waited", "bound"), [((49, 450, 1), "compute"), ((50, 449, 1), "input"),
                                               ((5, 421, 74), "compute"), ((5, 420, 75), "network")])  # fmt: skip
def test_what_is_lost_in_the_noise_between_runs_is_no_cause(waited: tuple[float, ...], bound: str) -> None:
    assert explained(waited, waited).bound == bound


def test_nothing_is_said_where_no_step_was_split() -> None:
    assert explain(builders.results([builders.epoch(1)])) is None
    assert explain(builders.results([])) is None
    assert explain(results((0, 0, 0))) is None


def test_epochs_count_by_their_steps_without_the_first_of_the_run_which_traces() -> None:
    first, second = results((0, 100, 0), steps=[11]).epochs[0], results((300, 100, 0), steps=[41]).epochs[0]
    epochs = [first, second.model_copy(update={"epoch": 2})]
    [rank] = split(builders.results(epochs, world=World(size=1, hosts=["here"])))
    assert rank == pytest.approx(StepTimes(0.3 * 30 / 40, 0.1, 0.0))


def test_epochs_of_another_number_of_ranks_are_left_out() -> None:
    alone, together = results((400, 100, 0), steps=[11]), results((0, 450, 50), (0, 450, 50), steps=[11, 21])
    mixed = together.model_copy(update={"epochs": [alone.epochs[0], together.epochs[1]]})
    assert split(mixed) == split(together)


def test_epochs_of_the_run_that_is_continued_are_left_out() -> None:
    before, own = results((0, 400, 100), (400, 100, 0), steps=[11]), results((5, 490, 5), (5, 490, 5), steps=[11, 31])
    mixed = own.model_copy(update={"epochs": [before.epochs[0], own.epochs[1]], "epochs_before": 1, "steps_before": 11})
    assert split(mixed) == [pytest.approx(StepTimes(0.005, 0.490, 0.005))] * 2
    assert explain(mixed.model_copy(update={"epochs": before.epochs})) is None


def test_the_epoch_within_which_a_run_ended_counts_too() -> None:
    rest = Unfinished(steps=30, input_seconds=[0.3], compute_seconds=[0.1], communication_seconds=[0.0])
    stopped = results((0, 100, 0), steps=[11]).model_copy(update={"unfinished": rest})
    assert split(stopped) == [pytest.approx(StepTimes(0.3 * 30 / 40, 0.1, 0.0))]
    alone = explain(stopped.model_copy(update={"epochs": []}))
    assert alone is not None
    assert alone.bound == "input"


def test_what_was_measured_and_gains_nothing_is_not_advised() -> None:
    slow = results((5, 300, 195), (5, 300, 195), precision="bfloat16", compression="none")
    busy = results((5, 495, 0), precision="float32")
    for measured, chosen, advised in ((slow, "compression", "--compression"), (busy, "precision", "--precision")):
        explanations = [explain(measured.model_copy(update={"chosen": chosen})) for chosen in ([], [chosen])]
        assert [advised in str(explanation) for explanation in explanations] == [True, False]


def test_with_adasum_only_what_goes_with_it_is_advised() -> None:
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


def test_every_option_and_command_that_is_advised_is_there() -> None:
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
def test_who_waits_for_images_is_told_what_brings_them_nearer(path: str, advised: str) -> None:
    run = results((190, 300, 10), dataset="imagenet").model_copy(update={"data_path": path})
    assert advised in str(explain(run))


def test_what_a_run_did_already_is_not_advised() -> None:
    slow_network = [(5, 300, 195)] * 2
    assert "--compression bf16" in str(explained(*slow_network))
    assert "--compression" not in str(explained(*slow_network, compression="fp16"))
    assert "--precision" not in str(explained((5, 495, 0), precision="bfloat16"))


def test_it_is_one_line() -> None:
    assert not any("\n" in str(explanation) for explanation in EVERY)
