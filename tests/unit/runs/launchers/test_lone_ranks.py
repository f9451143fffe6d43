"""Notes if ranks of a script would train each on their own."""

import re
from pathlib import Path

import pytest

from orchestrator import packaged_files
from orchestrator.config import Launch
from orchestrator.runs import launchers, script, unsent_files
from orchestrator.runs.launchers import choose_launcher, lone_ranks
from tests import builders
from tests.unit.conftest import Cli


@pytest.mark.parametrize(
    ("text", "launcher", "nodes", "note"),
    [
        ("import lightning", "torchrun", 2, "Lightning does not learn"),
        ("import lightning, torch.distributed", "torchrun", 2, "Lightning does not learn"),
        ("import pytorch_lightning as pl", "torchrun", 1, ""),
        ("import lightning\nTrainer(num_nodes=2)", "torchrun", 2, ""),
        ("import torch", "plain", 2, "each of the 2 ranks runs the whole script on its own"),
        ("import keras", "plain", 2, "each of the 2 ranks runs the whole script on its own"),
        ("import torch", "plain", 1, ""),
        ("import jax\njax.distributed.initialize()", "plain", 2, ""),
        ("import jax", "plain", 2, "each of the 2 ranks"),
        ("import torch.distributed", "torchrun", 2, ""),
        ("import json", "plain", 2, ""),
        ("import lightning\nTrainer(num_nodes=1)", "torchrun", 2, "Lightning does not learn"),
        ("import lightning\nparser.add_argument('--num_nodes', default=1)", "torchrun", 2, ""),
        ("import torch.multiprocessing as mp\nmp.spawn(train)", "torchrun", 2, "the script starts processes itself"),
        ("import torch.multiprocessing as mp\nmp.spawn(train)", "torchrun", 1, ""),
        (
            "from torch.multiprocessing import spawn\nspawn(f) if 'LOCAL_RANK' not in environ else f()",
            "torchrun",
            2,
            "",
        ),
        ("from detectron2.engine import launch\nlaunch(main, 2)", "plain", 2, "the script starts processes itself"),
        (
            "import torch.distributed\nadd_argument('--local_rank')",
            "torchrun",
            2,
            "the script has an option --local_rank",
        ),
        ("import deepspeed\nadd_argument('--local-rank')", "torchrun", 2, "the script has an option --local_rank"),
        ("import torch\nadd_argument('--local_rank', default=environ['LOCAL_RANK'])", "torchrun", 2, ""),
        ("import horovod.torch, torch\nadd_argument('--local_rank')", "horovod", 2, ""),
        ("from mmengine.runner import Runner", "torchrun", 2, "MMEngine joins the ranks only"),
        ("from mmengine.runner import Runner\nRunner(launcher='pytorch')", "torchrun", 2, ""),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", "tensorflow", 2, "MirroredStrategy uses the"),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", "tensorflow", 1, ""),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", "tensorflow", 2, ""),
        ("from ultralytics import YOLO", "plain", 2, "each of the 2 ranks"),
        ("from ultralytics import YOLO\nYOLO().train(device=[0, 1])", "plain", 2, ""),
        ("import xgboost", "plain", 2, "each of the 2 ranks"),
        ("import keras\nkeras.distribution.initialize(a, n, i)", "plain", 2, ""),
    ],
)
def test_note_if_each_rank_would_train_on_its_own(
    tmp_path: Path, text: str, launcher: str, nodes: int, note: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    cluster, source = builders.cluster(nodes=nodes), script.gather(["python", str(tmp_path / "train.py")])
    run = builders.run(np=nodes, launcher=launcher)
    found = list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))
    assert [text[: len(note)] for text in found] == [note] * bool(note)


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("import torch", ""),
        ("import lightning", "PyTorch Lightning"),
        ("import torch\nadd_argument('--local_rank')", "Scripts with --local_rank"),
        ("import torch.multiprocessing as mp\nmp.spawn(train)", "Scripts that start processes"),
    ],
)
def test_note_names_a_page_and_a_section_that_exist(tmp_path: Path, text: str, section: str) -> None:
    (tmp_path / "train.py").write_text(text)
    cluster, source = builders.cluster(nodes=2), script.gather(["python", str(tmp_path / "train.py")])
    run = builders.run(np=2, launcher="plain" if not section else "torchrun")
    [note] = lone_ranks.notes(source, run, launchers.layout(cluster, run))
    [page] = re.findall(r"docs/guide/[\w-]+\.md", note)
    assert section in note
    assert f"# {section}" in (packaged_files.PACKAGE.parent / page).read_text()


def test_mmengine_that_gets_its_launcher_joins_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from mmengine.runner import Runner")
    cluster, run = builders.cluster(nodes=2), builders.run(np=2, launcher="torchrun")
    for option in (["--launcher", "pytorch"], ["--launcher=pytorch"]):
        source = script.gather(["python", str(tmp_path / "train.py"), *option])
        assert not list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))


def test_dry_run_prints_the_notes_of_a_deployed_cluster(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "train.py").write_text("import keras")
    command = ("run", "--dry-run", "--no-packages", "--", "python", "train.py")
    assert "on its own" not in cli(*command).stderr
    builders.deployed(nodes=2)
    assert "each of the 2 ranks runs the whole script on its own" in cli(*command).stderr
    assert "on its own" not in cli("run", "--np", "1", *command[1:]).stderr


def test_each_file_of_a_script_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"train.py": "import torch, parts", "parts.py": "import numpy", "conf.json": "{}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    source = script.gather(["python", str(tmp_path / "train.py")])
    opened, read_bytes = list[str](), Path.read_bytes

    def read(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    unsent_files.note_on_arguments(source)
    options = choose_launcher.choose(Launch(), source)
    cluster, run = builders.cluster(nodes=2), builders.run(np=2, launcher=options.launcher)
    assert len(list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))) == 1
    run = run.model_copy(update={"launcher": "torchrun"})  # looks for two patterns in every file
    assert not list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))
    assert sorted(opened) == sorted(files)
