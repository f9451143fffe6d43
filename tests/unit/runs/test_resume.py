"""Which checkpoint a run goes on from, with which configuration, and what is refused before a node is asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError, OrchestratorError, StateError
from orchestrator.runs import resume
from orchestrator.runs.datasets import FoundDataset
from orchestrator.schema import CheckpointEntry, Checkpoints, TrainConfig
from tests import builders, samples
from tests.unit.conftest import Cli

OLD = builders.run(id="resnet20-mnist-1", np=2)
FIRST = CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=2, whole=True, top1=0.5)
WITHIN = CheckpointEntry(name="epoch-0002-step-000006", epoch=2, step=6, world=2, whole=False)
LAST = CheckpointEntry(name="epoch-0002", epoch=2, step=8, world=2, whole=True, top1=0.6)


def continued(
    *entries: CheckpointEntry, np: int = 2, limits: Mapping[str, Any] | None = None, **settings: Any
) -> TrainConfig:
    config = samples.train_config(run=OLD.id, data="/shared/data/mnist", **settings)
    return resume.resumed_config(config, Checkpoints(entries=list(entries)), OLD, np, limits or {}, "default")


def test_a_run_goes_on_as_it_was_from_its_newest_checkpoint() -> None:
    config = continued(FIRST, WITHIN, seed=7, restarts=2, max_time=60.0)
    assert config == samples.train_config(
        run=OLD.id,
        data="/shared/data/mnist",
        seed=7,
        max_time=60.0,
        restarts=3,
        resume="/shared/runs/resnet20-mnist-1/checkpoints/epoch-0002-step-000006",
    )


def test_limits_are_set_anew_and_epochs_put_steps_aside() -> None:
    assert continued(FIRST, epochs=2, limits={"epochs": 9, "max_time": 5.0}).epochs == 9
    assert continued(FIRST, steps=4, limits={"epochs": 9}).steps is None
    assert continued(FIRST, steps=4, limits={"steps": 6}).steps == 6


def test_more_steps_than_the_epochs_have_get_more_epochs() -> None:
    """Of four steps each, or of eight with one rank."""
    assert continued(FIRST, WITHIN, epochs=2, limits={"steps": 17}).epochs == 5
    assert continued(FIRST, LAST, epochs=2, limits={"steps": 17}, np=1).epochs == 3
    assert continued(FIRST, epochs=9, limits={"steps": 17}).epochs == 9
    short = FIRST.model_copy(update={"step": 1})
    assert continued(short, epochs=2, limits={"steps": 17}, np=3).epochs == 2  # fewer steps than can be told
    assert continued(WITHIN, epochs=2, limits={"steps": 17}).epochs == 2  # how long an epoch is was not seen yet


@pytest.fixture
def mnist(tmp_path: Path) -> FoundDataset:
    (tmp_path / "images").write_bytes(b"of digits")
    return FoundDataset("mnist", tmp_path, ["images"], train=9000, test=1000, note="")


def test_a_cluster_without_the_data_set_gets_the_same_one_again(mnist: FoundDataset) -> None:
    resume.require_same(OLD, samples.train_config(data=mnist.remote), mnist, "default")


@pytest.mark.parametrize(
    ("data", "problem", "remedy"),
    [
        ("/shared/data/mnist-0", "trained on /shared/data/mnist-0, which the cluster no longer has", "--data DIR"),
        ("", "trained on shards which the cluster no longer has", "data prepare mnist --data"),
    ],
)
def test_another_data_set_is_refused_and_shards_are_to_be_made_first(
    mnist: FoundDataset, data: str, problem: str, remedy: str
) -> None:
    with pytest.raises(StateError, match=problem) as caught:
        resume.require_same(OLD, samples.train_config(data=data or mnist.records), mnist, "default")
    assert remedy in caught.value.hint


@pytest.mark.parametrize(
    ("entry", "settings", "problem"),
    [
        (LAST, {"epochs": 2}, "train.epochs: 2: run resnet20-mnist-1 has made 2"),
        (WITHIN, {"steps": 6}, "train.steps: 6: run resnet20-mnist-1 has made 6"),
    ],
)
def test_a_run_that_has_made_all_it_was_asked_for_is_refused(
    entry: CheckpointEntry, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        continued(FIRST, entry, **settings)
    assert "--epochs or --steps" in caught.value.hint


def test_an_accuracy_that_was_reached_is_refused_or_put_aside() -> None:
    """More epochs put it aside; one that was not reached holds on."""
    with pytest.raises(ConfigError, match=r"train.until: top1=0.5: run resnet20-mnist-1 has reached it"):
        continued(FIRST, epochs=9, until="top1=0.5")
    with pytest.raises(ConfigError, match=r"train.until: top1=0.6: run"):
        continued(FIRST, LAST, epochs=9, limits={"until": "top1=0.6"})
    assert continued(FIRST, epochs=9, until="top1=0.5", limits={"epochs": 12}).until is None
    assert continued(FIRST, epochs=9, until="top1=0.7", limits={"epochs": 12}).until == "top1=0.7"
    assert continued(FIRST, epochs=9, until="top1=0.5", limits={"until": "top1=0.7"}).until == "top1=0.7"


@pytest.mark.parametrize(("np", "count"), [(1, 16), (4, 4)])
def test_steps_that_were_made_are_counted_as_those_of_the_ranks_that_go_on(np: int, count: int) -> None:
    assert continued(LAST, np=np, epochs=9, steps=count + 1).steps == count + 1
    with pytest.raises(ConfigError, match=f"train.steps: {count}: run resnet20-mnist-1 has made {count} of {np} ranks"):
        continued(LAST, np=np, epochs=9, steps=count)


def test_a_last_epoch_that_was_not_evaluated_any_more_is_made_up_for() -> None:
    unseen = LAST.model_copy(update={"top1": None})
    assert str(continued(FIRST, unseen, epochs=2).resume).endswith("/epoch-0002")


def test_other_number_of_ranks_resumes_at_the_end_of_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    assert str(continued(FIRST, WITHIN, np=3).resume).endswith("/epoch-0001")
    messages = capsys.readouterr().err
    assert "3 ranks instead of 2: continues from the end of epoch 1; weights will differ" in " ".join(messages.split())


def test_another_number_of_ranks_cannot_go_on_from_within_the_first_epoch() -> None:
    with pytest.raises(StateError, match="which only 2 ranks can continue, not 1") as caught:
        continued(WITHIN, np=1)
    assert "`orchestrator train --resume resnet20-mnist-1 --np 2`" in caught.value.hint


def test_a_cluster_that_has_become_too_small_is_told_from_a_number_that_was_asked_for() -> None:
    with pytest.raises(StateError, match="had 2 ranks, and the cluster has 1 slots"):
        resume.ranks(OLD, None, builders.cluster(nodes=1))
    assert resume.ranks(OLD, None, builders.cluster()) == 2
    assert resume.ranks(OLD, 1, builders.cluster(nodes=1)) == 1


@pytest.mark.parametrize(
    ("kind", "what", "starts"),
    [
        ("script", "script", "run"),
        ("check", "check", "check"),
        ("prepare-imagenet", "prepare", "data prepare"),
        ("stage-data", "stage", "data stage"),
    ],
)
def test_only_a_training_run_can_be_resumed(kind: str, what: str, starts: str) -> None:
    with pytest.raises(OrchestratorError, match=f"x is a {what}: only runs of `train` can be resumed") as caught:
        resume.require_training(builders.run(id="x", kind=kind), "default")
    assert caught.value.hint == f"`orchestrator {starts}` starts a new one"


def remember(run_id: str, kind: str) -> None:
    state_dir = builders.deployed()
    state.replace(state_dir.runs / run_id / "run.json", builders.run(id=run_id, kind=kind).model_dump_json())


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--seed", "3", "--resume", "script-1"], 2, "--seed: not with --resume: script-1 keeps its settings"),
        (["resnet20", "--resume", "script-1"], 2, "MODEL: not with --resume"),
        (["--resume", "script-1", "--no-fp16-allreduce"], 2, "--fp16-allreduce: not with --resume"),
        (["--resume", "script-1", "--keep-checkpoints", "9"], 2, "--keep-checkpoints: not with --resume"),
        (["--resume", "script-2"], 1, "no run 'script-2', did you mean script-1?"),
        (["--resume", "script-1"], 1, "run script-1 is a script: only runs of `train` can be resumed"),
        (["--resume", "script-1", "--max-time", "soon"], 1, "run script-1 is a script"),
    ],
)
def test_what_cannot_be_resumed_or_changed_ends_with_one_message(
    cli: Cli, arguments: list[str], code: int, problem: str
) -> None:
    remember("script-1", kind="script")
    finished = cli("train", *arguments)
    assert (finished.returncode, finished.stdout) == (code, "")
    assert problem in " ".join(finished.stderr.split())


def test_limits_beside_resume_are_checked_as_without(cli: Cli) -> None:
    remember("resnet20-mnist-1", kind="resnet20-mnist")
    finished = cli("train", "--resume", "resnet20-mnist-1", "--max-time", "soon")
    assert finished.returncode == 2
    assert "train.max_time: 'soon': must be a valid number" in finished.stderr


def test_a_resumed_run_keeps_its_test_samples(cli: Cli) -> None:
    assert continued(FIRST, epochs=2, test_samples=64).test_samples == 64
    refused = cli("train", "--resume", OLD.id, "--test-samples", "9")
    assert refused.returncode == 2
    assert "--test-samples: not with --resume" in refused.stderr
