"""The launcher that a script needs, by its imports."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.runs import script
from orchestrator.runs.launchers import find_script_imports

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\nimport torch.distributed as dist\n"


def needed(directory: Path, argv: list[str], **files: str) -> find_script_imports.Needed:
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return find_script_imports.needed(
        script.gather([*argv[:1], *(str(directory / word) for word in argv[1:2]), *argv[2:]])
    )


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        ("import horovod.tensorflow.keras as hvd", "horovod"),
        ("from horovod import torch as hvd\nimport torch.distributed", "horovod"),
        ("import torch.distributed as dist", "torchrun"),
        ("from torch import distributed", "torchrun"),
        ("import torch\ntorch.distributed.init_process_group('gloo')", "torchrun"),
        ("def main():\n    import torch\n    torch.distributed.barrier()", "torchrun"),
        (DDP, "torchrun"),
        ("import lightning as L", "torchrun"),
        ("from transformers import Trainer, TrainingArguments", "torchrun"),
        ("import transformers\ntransformers.Seq2SeqTrainer()", "torchrun"),
        ("from transformers.trainer import Trainer", "torchrun"),
        ("from sentence_transformers import SentenceTransformerTrainer", "torchrun"),
        ("from sentence_transformers import SentenceTransformer", "plain"),
        ("from mmengine.runner import Runner", "torchrun"),
        ("import torch, ignite.distributed as idist", "torchrun"),
        ("from trl import SFTTrainer", "torchrun"),
        ("try:\n import ray\nexcept ImportError:\n ray = None\nimport torch.distributed", "torchrun"),
        ("try:\n import horovod.torch as hvd\nexcept:\n hvd = None\nhvd.init()\nimport torch.distributed", "torchrun"),
        ("try:\n import ray\nexcept (AssertionError, ImportError):\n ray = None\nimport torch", "ray"),
        ("try:\n import ray\nexcept ImportError:\n raise SystemExit\nimport torch.distributed", "ray"),
        ("try:\n import ray\nexcept ValueError:\n pass\nimport torch.distributed", "ray"),
        ("try:\n import lightning\nexcept ImportError:\n import pytorch_lightning", "torchrun"),
        ("from accelerate import Accelerator", "torchrun"),
        ("from transformers import AutoModel", "plain"),
        ("from ray.train.torch import TorchTrainer\nimport torch.distributed", "ray"),
        ("from mpi4py import MPI", "mpirun"),
        ("import horovod.torch as hvd\nhvd.init()\nfrom mpi4py import MPI", "mpirun"),
        ("import ray\nfrom mpi4py import MPI", "ray"),
        ("import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()", "tensorflow"),
        ("from tensorflow import distribute", "tensorflow"),
        ("import tensorflow as tf\nprint(tf.__version__)", "plain"),
        ("import torch\nprint(torch.distributions)", "plain"),
        ("import rayon, horovodlike", "plain"),
        ("print('hello')", "plain"),
        ("this is no Python", "plain"),
        ("", "plain"),
    ],
)
def test_imports_of_a_script_select_its_launcher(tmp_path: Path, text: str, launcher: str) -> None:
    assert needed(tmp_path, ["python", "train.py"], train=text).launcher == launcher


@pytest.mark.parametrize("text", ["(" * 1000, f"{'-' * 100_000}1", f"1{' + 1' * 100_000}", "\0", "if"])
def test_imported_file_that_cannot_be_parsed_names_nothing(tmp_path: Path, text: str) -> None:
    found = needed(tmp_path, ["python", "train.py"], train="import odd\nimport torch.distributed", odd=text)
    assert found.launcher == "torchrun"


def test_warnings_about_the_code_of_a_script_are_not_shown(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert needed(tmp_path, ["python", "train.py"], train="import re, ray\nre.compile('\\d')").launcher == "ray"
    assert shown == []


def test_imported_modules_of_the_directory_are_read_once(tmp_path: Path) -> None:
    files = {"train": "import engine", "engine": "from parts import loop", "parts__loop": "import train, ray"}
    assert needed(tmp_path, ["python", "train.py"], **files) == ("ray", "ray", False)


def test_module_that_is_not_imported_is_ignored(tmp_path: Path) -> None:
    assert needed(tmp_path, ["python", "train.py"], train="import os", other="import ray").launcher == "plain"


@pytest.mark.parametrize("spelling", ["tf.distribute", "tf.distribute.experimental"])
def test_parameter_servers_are_recognized(tmp_path: Path, spelling: str) -> None:
    text = f"import tensorflow as tf\n{spelling}.ParameterServerStrategy(None)"
    required = needed(tmp_path, ["python", "train.py"], train=text)
    assert (required.launcher, required.parameter_servers) == ("tensorflow", True)


def test_module_of_the_current_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("import torch.distributed")
    monkeypatch.chdir(tmp_path)
    assert find_script_imports.needed(script.gather(["python", "-m", "train"])).launcher == "torchrun"


@pytest.mark.parametrize(
    "text",
    [
        "from .comm import world",
        "from . import comm",
        "from .comm import *",
        "from .parts import loop",
        "from .. import outside\nfrom ... import far\nfrom .comm import world",
    ],
)
def test_relative_imports_of_a_package_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    files = {"train": text, "comm": "from mpi4py import MPI", "parts/__init__": "", "parts/loop": "from .. import comm"}
    for name, content in files.items():
        (tmp_path / "pkg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pkg" / f"{name}.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    assert find_script_imports.needed(script.gather(["python", "-m", "pkg.train"])) == ("mpirun", "mpi4py", False)


def test_relative_import_is_not_taken_for_a_package_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("from .ray import trace")
    monkeypatch.chdir(tmp_path)
    assert find_script_imports.needed(script.gather(["python", "-m", "pkg.train"])).launcher == "plain"


@pytest.mark.parametrize(
    ("words", "launcher"),
    [
        (["-m", "mypkg.train"], "torchrun"),
        (["-mmypkg.train", "mypkg"], "torchrun"),
        (["-m", "mypkg"], "ray"),
        (["-m", "cProfile", "-o", "profile", "./start.py"], "torchrun"),
        (["-m", "cProfile", "absent.py"], "horovod"),
        (["-m", "absent", "data.txt"], "horovod"),
        (["start.py"], "torchrun"),
    ],
)
def test_modules_below_src_and_scripts_after_other_modules_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], launcher: str
) -> None:
    files = {
        "__init__": "",
        "__main__": "import ray",
        "train": "from . import comm",
        "comm": "import torch.distributed",
    }
    (tmp_path / "src" / "mypkg").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / "src" / "mypkg" / f"{name}.py").write_text(content)
    (tmp_path / "start.py").write_text("from mypkg.train import main")
    (tmp_path / "data.txt").touch()
    monkeypatch.chdir(tmp_path)
    # Not by locate(), which refuses a script that does not exist.
    source = script.gather(["python", "-m", "mypkg"])
    assert find_script_imports.needed(replace(source, command=["python", *words])).launcher == launcher


@pytest.mark.parametrize("module", ["mpi4py", "mpi4py.futures"])
def test_mpi4py_as_a_module_needs_mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    (tmp_path / "solo.py").write_text("import numpy")
    monkeypatch.chdir(tmp_path)
    source = script.gather(["python", "-m", module, "solo.py"])
    assert find_script_imports.needed(source) == ("mpirun", "mpi4py", False)


def test_program_of_another_language_may_start_anything(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("#!/bin/sh\nexec python train.py\n")
    (tmp_path / "start.sh").chmod(0o755)
    assert find_script_imports.needed(script.gather([str(tmp_path / "start.sh")])).launcher == "horovod"
