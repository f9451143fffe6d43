"""Resuming a run: the checkpoint, the configuration, and refusals before a node is contacted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError, OrchestratorError, StateError
from orchestrator.runs import resumed_run_config, run_record
from orchestrator.runs.datasets import FoundDataset
from orchestrator.schema import CheckpointEntry, Checkpoints, TrainConfig
from tests import builders, samples
from tests.stand_ins import ssh_stand_in
from tests.unit.conftest import Cli

OLD = builders.run(id="resnet20-mnist-1", np=2)
FIRST = CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=2, whole=True, top1=0.5)
WITHIN = CheckpointEntry(name="epoch-0002-step-000006", epoch=2, step=6, world=2, whole=False)
LAST = CheckpointEntry(name="epoch-0002", epoch=2, step=8, world=2, whole=True, top1=0.6)


def resumed_config(
    *entries: CheckpointEntry, np: int = 2, limits: Mapping[str, Any] | None = None, **settings: Any
) -> TrainConfig:
    config = samples.train_config(run=OLD.id, data="/shared/data/mnist", **settings)
    return resumed_run_config.resumed_config(
        config, Checkpoints(entries=list(entries)), OLD, np, limits or {}, "default"
    )


def test_run_resumes_unchanged_from_its_newest_checkpoint() -> None:
    config = resumed_config(FIRST, WITHIN, seed=7, restarts=2, max_time=60.0)
    assert config == samples.train_config(
        run=OLD.id,
        data="/shared/data/mnist",
        seed=7,
        max_time=60.0,
        restarts=3,
        resume="/shared/runs/resnet20-mnist-1/checkpoints/epoch-0002-step-000006",
    )


def test_new_limits_replace_old_ones_and_epochs_replace_steps() -> None:
    assert resumed_config(FIRST, epochs=2, limits={"epochs": 9, "max_time": 5.0}).epochs == 9
    assert resumed_config(FIRST, steps=4, limits={"epochs": 9}).steps is None
    assert resumed_config(FIRST, steps=4, limits={"steps": 6}).steps == 6


def test_more_steps_than_the_epochs_have_add_epochs() -> None:
    """Epochs have four steps, or eight with one rank."""
    assert resumed_config(FIRST, WITHIN, epochs=2, limits={"steps": 17}).epochs == 5
    assert resumed_config(FIRST, LAST, epochs=2, limits={"steps": 17}, np=1).epochs == 3
    assert resumed_config(FIRST, epochs=9, limits={"steps": 17}).epochs == 9
    short = FIRST.model_copy(update={"step": 1})
    assert resumed_config(short, epochs=2, limits={"steps": 17}, np=3).epochs == 2  # the steps of an epoch are unknown


def test_steps_that_may_need_more_epochs_are_refused_before_the_first_has_ended() -> None:
    """The length of an epoch is not known yet."""
    with pytest.raises(ConfigError, match=r"train\.steps: 17: run .* has not made a whole epoch"):
        resumed_config(WITHIN, epochs=2, limits={"steps": 17})
    assert resumed_config(WITHIN, epochs=2, limits={"steps": 17, "epochs": 5}).steps == 17
    first = WITHIN.model_copy(update={"epoch": 1, "step": 3})
    assert resumed_config(first, epochs=9, limits={"steps": 27}).epochs == 9
    assert resumed_config(first, epochs=1, steps=500, limits={"steps": 500}).steps == 500


def test_fewer_epochs_than_were_made_are_refused_within_an_epoch_too() -> None:
    with pytest.raises(ConfigError, match=r"train\.epochs: 1: run .* has made 1"):
        resumed_config(FIRST, WITHIN.model_copy(update={"epoch": 2, "step": 6}), limits={"epochs": 1})


@pytest.fixture
def mnist(tmp_path: Path) -> FoundDataset:
    directory = tmp_path / "my data"
    directory.mkdir()
    (directory / "images").write_bytes(b"of digits")
    return FoundDataset("mnist", directory, ["images"], train=9000, test=1000, note="")


def test_cluster_without_the_data_set_gets_the_same_one_again(mnist: FoundDataset) -> None:
    resumed_run_config.require_same(OLD, samples.train_config(data=mnist.remote), mnist, "default")


@pytest.mark.parametrize(
    ("data", "problem", "remedy"),
    [
        ("/shared/data/mnist-0", "trained on /shared/data/mnist-0, which the cluster no longer has", "sizes and times"),
        ("", "trained on shards which the cluster no longer has", "data prepare mnist --data '/"),
    ],
)
def test_other_data_set_is_refused_and_shards_must_be_prepared(
    mnist: FoundDataset, data: str, problem: str, remedy: str
) -> None:
    with pytest.raises(StateError, match=problem) as caught:
        resumed_run_config.require_same(OLD, samples.train_config(data=data or mnist.records), mnist, "default")
    assert remedy in caught.value.hint


@pytest.mark.parametrize(
    ("entry", "settings", "problem"),
    [
        (LAST, {"epochs": 2}, "train.epochs: 2: run resnet20-mnist-1 has made 2"),
        (WITHIN, {"steps": 6}, "train.steps: 6: run resnet20-mnist-1 has made 6"),
    ],
)
def test_completed_run_is_refused(entry: CheckpointEntry, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        resumed_config(FIRST, entry, **settings)
    assert "--epochs or --steps" in caught.value.hint


@pytest.mark.parametrize(
    ("entry", "settings"), [(LAST, {"epochs": 2}), (WITHIN, {"steps": 6}), (LAST, {"epochs": 9, "until": "top1=0.6"})]
)
def test_completed_run_writes_its_network_without_more_training(
    entry: CheckpointEntry, settings: dict[str, Any]
) -> None:
    config = resumed_config(FIRST, entry, **settings, limits={"save_model": True})
    assert config.save_model
    assert {key: getattr(config, key) for key in settings} == settings, "they set the schedule of a run that continues"
    with pytest.raises(ConfigError) as caught:
        resumed_config(FIRST, entry, **settings, limits={"save_model": False})
    assert "--save-model alone writes its network" in caught.value.hint


def test_resumed_run_keeps_or_changes_whether_it_writes_its_network() -> None:
    assert resumed_config(WITHIN, epochs=9, save_model=True).save_model
    assert not resumed_config(WITHIN, epochs=9, save_model=True, limits={"save_model": False}).save_model
    config = resumed_config(WITHIN, epochs=9, limits={"save_model": True})
    assert (config.save_model, config.epochs) == (True, 9)


def test_reached_accuracy_is_refused_unless_epochs_are_given() -> None:
    """More epochs remove the limit; an accuracy that was not reached stays."""
    with pytest.raises(ConfigError, match=r"train.until: top1=0.5: run resnet20-mnist-1 has reached it"):
        resumed_config(FIRST, epochs=9, until="top1=0.5")
    with pytest.raises(ConfigError, match=r"train.until: top1=0.6: run"):
        resumed_config(FIRST, LAST, epochs=9, limits={"until": "top1=0.6"})
    assert resumed_config(FIRST, epochs=9, until="top1=0.5", limits={"epochs": 12}).until is None
    assert resumed_config(FIRST, epochs=9, until="top1=0.7", limits={"epochs": 12}).until == "top1=0.7"
    assert resumed_config(FIRST, epochs=9, until="top1=0.5", limits={"until": "top1=0.7"}).until == "top1=0.7"


@pytest.mark.parametrize(("np", "count"), [(1, 16), (4, 4)])
def test_completed_steps_are_converted_to_the_new_ranks(np: int, count: int) -> None:
    assert resumed_config(LAST, np=np, epochs=9, steps=count + 1).steps == count + 1
    with pytest.raises(ConfigError, match=f"train.steps: {count}: run resnet20-mnist-1 has made {count} of {np} ranks"):
        resumed_config(LAST, np=np, epochs=9, steps=count)


def test_missing_evaluation_of_the_last_epoch_is_repeated() -> None:
    unseen = LAST.model_copy(update={"top1": None})
    assert str(resumed_config(FIRST, unseen, epochs=2).resume).endswith("/epoch-0002")


def test_other_number_of_ranks_resumes_at_the_end_of_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    assert str(resumed_config(FIRST, WITHIN, np=3).resume).endswith("/epoch-0001")
    messages = capsys.readouterr().err
    assert "3 ranks instead of 2: continues from the end of epoch 1; weights will differ" in " ".join(messages.split())


def test_other_number_of_ranks_needs_the_end_of_an_epoch() -> None:
    with pytest.raises(StateError, match="which only 2 ranks can continue, not 1") as caught:
        resumed_config(WITHIN, np=1)
    assert "`orchestrator train --resume resnet20-mnist-1 --np 2`" in caught.value.hint


def test_too_small_cluster_differs_from_a_requested_number() -> None:
    with pytest.raises(StateError, match="had 2 ranks, and the cluster has 1 slots"):
        resumed_run_config.ranks(OLD, None, builders.cluster(nodes=1))
    assert resumed_run_config.ranks(OLD, None, builders.cluster()) == 2
    assert resumed_run_config.ranks(OLD, 1, builders.cluster(nodes=1)) == 1


@pytest.mark.parametrize(
    ("kind", "description", "starts"),
    [
        ("script", "script", "run"),
        ("check", "check", "check"),
        ("prepare-imagenet", "prepare", "data prepare"),
        ("stage-data", "stage", "data stage"),
    ],
)
def test_only_a_training_run_can_be_resumed(kind: str, description: str, starts: str) -> None:
    with pytest.raises(OrchestratorError, match=f"x is a {description}: only runs of `train` can be resumed") as caught:
        resumed_run_config.require_training(builders.run(id="x", kind=kind), "default")
    assert caught.value.hint == f"`orchestrator {starts}` starts a new one"


def record_run(run_id: str, kind: str) -> None:
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
def test_impossible_resume_or_change_ends_with_one_message(
    cli: Cli, arguments: list[str], code: int, problem: str
) -> None:
    record_run("script-1", kind="script")
    finished = cli("train", *arguments)
    assert (finished.returncode, finished.stdout) == (code, "")
    assert problem in " ".join(finished.stderr.split())


def test_limits_with_resume_are_validated(cli: Cli) -> None:
    record_run("resnet20-mnist-1", kind="resnet20-mnist")
    finished = cli("train", "--resume", "resnet20-mnist-1", "--max-time", "soon")
    assert finished.returncode == 2
    assert "train.max_time: 'soon': must be a valid number" in finished.stderr


def test_resumed_run_keeps_its_test_samples(cli: Cli) -> None:
    assert resumed_config(FIRST, epochs=2, test_samples=64).test_samples == 64
    refused = cli("train", "--resume", OLD.id, "--test-samples", "9")
    assert refused.returncode == 2
    assert "--test-samples: not with --resume" in refused.stderr


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of OLD on a head whose shared storage is a local directory."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path))
    directory = Path(OLD.directory)
    (directory / "checkpoints").mkdir(parents=True)
    Checkpoints(entries=[]).write(directory / "checkpoints" / "index.json")
    samples.train_config(run=OLD.id).write(directory / "config.json")
    return directory


def read() -> Checkpoints:
    with ssh_stand_in.session(lambda command: b"" if "list-units" in command else None) as head:
        return resumed_run_config.read(state.for_cluster("demo"), head, OLD)[1]


def test_run_whose_index_has_no_checkpoint_is_refused(directory: Path) -> None:
    with pytest.raises(StateError, match="run resnet20-mnist-1 has no checkpoint") as caught:
        read()
    assert "starts a new one" in caught.value.hint


def test_run_that_ended_before_it_resumed_another_names_that_one(directory: Path) -> None:
    samples.train_config(run=OLD.id, resume="/shared/runs/lenet-mnist-0/checkpoints/epoch-0001").write(
        directory / "config.json"
    )
    with pytest.raises(StateError, match="run resnet20-mnist-1 has no checkpoint") as caught:
        read()
    assert "`orchestrator train --resume lenet-mnist-0 --cluster demo` continues" in caught.value.hint


def test_damaged_checkpoint_that_was_removed_is_left_out(directory: Path) -> None:
    Checkpoints(entries=[FIRST, LAST], best=LAST.name).write(directory / "checkpoints" / "index.json")
    for entry in (FIRST, LAST):
        (directory / "checkpoints" / entry.name).mkdir()
    assert read().entries == [FIRST, LAST]
    (directory / "checkpoints" / LAST.name).rmdir()
    assert read().entries == [FIRST]
