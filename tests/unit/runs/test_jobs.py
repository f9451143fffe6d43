"""Starts of runs: what is kept of a run is written before it starts, or is no error."""

import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, ConfigError, StateError
from orchestrator.reproduction import exported_run
from orchestrator.runs import (
    checksums,
    jobs,
    predict_runs,
    prediction_inputs,
    run_record,
    script,
    source_archive,
    store,
)
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.jobs import resumed_training, scripts, shards
from orchestrator.runs.script import Source
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.schema import CheckMessage, CheckpointEntry, Checkpoints, CheckResult, RunStatus
from tests import builders, samples
from tests.stand_ins import ssh_stand_in

RUN = builders.run(np=1)
ROOM = 1 << 19  # bytes of a file: more than the records of a run have
CONFIG = {
    "train": {"model": "lenet", "dataset": "synthetic", "batch_size": 32},
    "launch": {"controller": "gloo"},  # else both would be measured
}


class Head:
    """Answers of a healthy head, whose commands do nothing; ``started`` and ``removed`` are the ids of runs."""

    def __init__(self) -> None:
        self.started, self.removed = list[str](), list[str]()
        self.on_start: Callable[[str], object] = lambda _: None
        # By a part of the command.
        self.answers = {"telemetry.node_report": builders.node_report().model_dump_json(), "df --output": str(1 << 40)}

    def __call__(self, command: str) -> bytes:
        if unit := re.search(r"--unit orchestrator-(\S+)", command):
            self.started.append(unit[1])
            self.on_start(unit[1])
        if directory := re.fullmatch(r"rm -rf /shared/runs/(\S+)", command):
            self.removed.append(directory[1])
        return next((answer.encode() for part, answer in self.answers.items() if part in command), b"")


@pytest.fixture
def head() -> Head:
    return Head()


@pytest.fixture
def cluster(head: Head) -> Iterator[Cluster]:
    """Yield a cluster of one node with two slots."""
    with ssh_stand_in.listening(head) as (port, host_key):
        _, reachable = ssh_stand_in.deployed(port, host_key)
        nodes = {name: node.model_copy(update={"slots": 2}) for name, node in reachable.nodes.items()}
        yield reachable.model_copy(update={"nodes": nodes})


@contextmanager
def room_for_small_files() -> Iterator[None]:
    """Let this process write no file that is larger than ROOM."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_training_whose_data_is_recorded_starts(head: Head, cluster: Cluster, tmp_path: Path) -> None:
    data = FoundDataset("mnist", tmp_path, [], train=1, test=1, note="")
    state_dir = state.for_cluster("demo")
    jobs._start(state_dir, cluster, RUN, Config(), data, lambda _: samples.train_config())
    assert head.started == [RUN.id]
    assert (state_dir.runs / RUN.id / checksums.SOURCE).is_file()


def test_training_whose_data_cannot_be_recorded_does_not_start(head: Head, cluster: Cluster, tmp_path: Path) -> None:
    data = FoundDataset("mnist", tmp_path, [], train=1, test=1, note="")
    state_dir = state.for_cluster("demo")
    (state_dir.runs / RUN.id / checksums.SOURCE).mkdir(parents=True)
    with pytest.raises(ConfigError, match="Is a directory"):
        jobs._start(state_dir, cluster, RUN, Config(), data, lambda _: samples.train_config())
    assert head.started == []


def test_resumed_training_whose_data_cannot_be_recorded_does_not_start(head: Head, cluster: Cluster) -> None:
    state_dir = state.for_cluster("demo")
    store.save(state_dir, RUN)
    RunStatus(state="stopped", exit_code=143, started=1.0, ended=2.0).write(state_dir.runs / RUN.id / store.STATUS)
    (state_dir.runs / RUN.id / checksums.FILE).write_text("x" * 2 * ROOM)
    entry = CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=1, whole=True)
    head.answers |= {
        "index.json": Checkpoints(entries=[entry]).model_dump_json(),
        "ls ": entry.name,
        "config.json": samples.train_config(data="/shared/data/mnist").model_dump_json(),
    }
    with room_for_small_files(), pytest.raises(ConfigError, match="File too large"):
        resumed_training.resume(state_dir, cluster, builders.DIGEST, Config(), RUN, {"epochs": 9})
    assert head.started == []
    resumed_training.resume(state_dir, cluster, builders.DIGEST, Config(), RUN, {"epochs": 9})
    assert len(head.started) == 1


def test_run_that_another_machine_forestalls_leaves_nothing(head: Head, cluster: Cluster) -> None:
    """Both saw a free cluster; the other command was first at the lock of the head."""
    head.answers["flock"] = "orchestrator-lenet-mnist-7.service"
    with pytest.raises(StateError, match="run lenet-mnist-7 is using the cluster"):
        jobs.train(state.for_cluster("demo"), cluster, builders.DIGEST, Config.model_validate(CONFIG))
    assert store.list_runs(state.for_cluster("demo")) == []
    assert head.removed == head.started


def test_run_whose_files_the_head_cannot_store_leaves_nothing(head: Head, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    source, state_dir = script.gather(["python", str(tmp_path / "train.py")]), builders.deployed("demo", nodes=1)

    def answer(command: str) -> bytes | None:
        return None if command.startswith("tar") else head(command)  # its directory does not exist here

    with ssh_stand_in.listening(answer) as (port, host_key):
        _, cluster = ssh_stand_in.deployed(port, host_key)
        with pytest.raises(CommandFailed, match="send files"):
            scripts.start(state_dir, cluster, builders.DIGEST, Config(), source, UserEnvironment(), None)
    assert (head.started, len(head.removed)) == ([], 1)
    assert list(state_dir.runs.iterdir()) == []


def test_interrupted_start_names_the_command_that_ends_the_run(
    head: Head, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.runs.control.systemd_units.start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs.train(state.for_cluster("demo"), cluster, builders.DIGEST, Config.model_validate(CONFIG))
    [run] = store.list_runs(state.for_cluster("demo"))
    message = f"run {run.id} may have started: `orchestrator stop {run.id} --cluster demo` ends it"
    assert message in " ".join(capsys.readouterr().err.split())
    assert head.removed == []


def test_data_with_more_classes_than_the_recipe_is_not_sent(head: Head, cluster: Cluster, tmp_path: Path) -> None:
    folders = [f"{split}/{name}/x.jpg" for split in ("train", "val") for name in "abc"]
    data = samples.imagenet(tmp_path / "data", dict.fromkeys(folders, samples.JPEG))
    (tmp_path / "mine.yaml").write_text("imagenet: {classes: 2}")
    train = {"model": "resnet50", "dataset": "imagenet", "data": data, "recipe": tmp_path / "mine.yaml"}
    config = Config.model_validate({**CONFIG, "train": train})
    with pytest.raises(ConfigError, match=f"classes: 2: {data} has images of 3 classes"):
        jobs.train(state.for_cluster("demo"), cluster, builders.DIGEST, config)
    assert head.started == []


@pytest.mark.parametrize(("epochs", "expected"), [(1, True), (2, False)])
def test_training_says_that_its_warm_up_never_ends(
    head: Head, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], epochs: int, expected: bool
) -> None:
    data = samples.mnist(tmp_path / "data", {"train": 64, "t10k": 8})
    values = {"train": {"model": "lenet", "dataset": "mnist", "data": data, "epochs": epochs}}
    jobs.train(state.for_cluster("demo"), cluster, builders.DIGEST, Config.model_validate({**CONFIG, **values}))
    assert len(head.started) == 1
    said = "the warm-up of 1 epochs takes the whole run" in " ".join(capsys.readouterr().err.split())
    assert said == expected


def test_preparation_says_which_images_are_not_read(
    head: Head, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = ("train/a/x.jpg", "train/a/y.webp", "val/a/x.jpg")
    data = samples.imagenet(tmp_path / "data", dict.fromkeys(images, samples.JPEG))
    config = Config.model_validate({**CONFIG, "train": {"dataset": "imagenet", "data": data}})
    shards.prepare(state.for_cluster("demo"), cluster, builders.DIGEST, config, skip_unreadable=False)
    assert len(head.started) == 1
    assert "imagenet: 1 .webp files are ignored" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("train", "what"), [({"dataset": "imagenet"}, "imagenet is not"), ({}, "nothing is")])
def test_missing_shards_are_named(head: Head, cluster: Cluster, train: dict[str, str], what: str) -> None:
    config = Config.model_validate({**CONFIG, "train": train})
    with pytest.raises(ConfigError, match=rf"^train.data: {what} prepared in /shared/data$"):
        shards.stage(state.for_cluster("demo"), cluster, builders.DIGEST, config)
    assert head.started == []


def test_repeated_training_has_the_variables_of_the_user(head: Head, cluster: Cluster) -> None:
    state_dir = state.for_cluster("demo")
    config, settings = Config.model_validate(CONFIG), samples.train_config(dataset="synthetic", data=None)
    environment = UserEnvironment({"ONEDNN_MAX_CPU_ISA": "AVX2"})
    run = jobs.repeat(state_dir, cluster, builders.DIGEST, config, settings, environment)
    assert head.started == [run.id]
    assert exported_run.load(state_dir.runs / run.id).provenance.variables == ["ONEDNN_MAX_CPU_ISA"]


def test_script_whose_code_cannot_be_kept_does_not_start(head: Head, cluster: Cluster, tmp_path: Path) -> None:
    state_dir = builders.deployed("demo", nodes=1)
    (tmp_path / "train.py").write_bytes(os.urandom(2 * ROOM))
    source = Source(tmp_path, ["true"], files={"train.py": tmp_path / "train.py"}, left_out={})
    with room_for_small_files(), pytest.raises(ConfigError, match="File too large"):
        scripts.start(state_dir, cluster, builders.DIGEST, Config(), source, UserEnvironment(), None)
    assert head.started == []


def test_empty_and_ignored_directories_of_a_script_exist_in_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    code = tmp_path / "code"
    for name in ("checkpoints", "big/part"):
        (code / name).mkdir(parents=True)
    for name in ("train.py", "big/part/a.bin"):
        (code / name).touch()
    (code / ".orchestratorignore").write_text("big/\n")

    def answer(command: str) -> bytes | None:
        return None if command.startswith(("tar", "mkdir")) else Head()(command)

    source = script.gather(["python", str(code / "train.py")])
    state_dir = builders.deployed("demo", nodes=1)
    with ssh_stand_in.listening(answer) as (port, host_key):
        _, cluster = ssh_stand_in.deployed(port, host_key)
        run = scripts.start(state_dir, cluster, builders.DIGEST, Config(), source, UserEnvironment(), None)
    copy = Path(run.workdir)
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == ["big", "checkpoints", "train.py"]
    assert exported_run.load(state_dir.runs / run.id).provenance.directories == ["src/big", "src/checkpoints"]


def test_code_of_a_script_is_kept_before_its_run_has_a_record() -> None:
    state_dir = builders.deployed("demo")
    source_archive.keep(state_dir, RUN, b"an archive")
    assert (state_dir.runs / RUN.id / source_archive.FILE).read_bytes() == b"an archive"


def test_prediction_that_cannot_be_kept_is_no_error_of_a_run_that_has_started(
    head: Head, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    state_dir = state.for_cluster("demo")
    messages = [CheckMessage(bytes=size, latency_seconds=0.006, bus_bandwidth=1e8) for size in (4, 1 << 20)]
    check = CheckResult(size=2, expected_sum=3.0, ranks=[], sizes=messages, step_seconds=1.0, step_work=1.0)
    profile = builders.profile(run="profile", model="lenet", image_size=32, threads=1)
    for kind, name, content in (("check", "check.json", check), ("profile", prediction_inputs.PROFILE, profile)):
        store.save(state_dir, builders.run(id=kind, kind=kind))
        content.write(state_dir.runs / kind / name)
    head.on_start = lambda run: (state_dir.runs / run / predict_runs.PREDICTION).mkdir()
    run = jobs.train(state_dir, cluster, builders.DIGEST, Config.model_validate(CONFIG))
    assert head.started == [run.id]
    message = f"run {run.id} has started, its prediction is not kept: [Errno 21] Is a directory"
    assert message in " ".join(capsys.readouterr().err.split())
