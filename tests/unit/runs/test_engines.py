"""Engines of `train`: their launchers, the frameworks that they need, and settings that they cannot follow."""

from importlib.util import find_spec
from typing import Any, get_args

import pytest

from orchestrator.config import Launch, Train
from orchestrator.errors import ConfigError
from orchestrator.runs import engines
from orchestrator.runs.launchers import LAUNCHERS
from orchestrator.schema import Engine
from tests import samples

OTHERS = [name for name in engines.ENGINES if name != "ours"]
FOLLOWED: dict[str, Any] = {"model": "lenet", "dataset": "mnist", "augment": False, "precision": "float32"}
REFUSED: list[dict[str, Any]] = [
    {"augment": True},
    {"augment": None},  # the recipe's value is true
    {"precision": "float16"},
    {"precision": "auto"},
    {"compression": "bf16"},
    {"xla": True},
    {"backward_passes_per_step": 2},
    {"gradient_predivide_factor": 2.0},
    {"adasum": True},
    {"hierarchical": True},
    {"max_time": 60.0},
    {"checkpoint_every": 60.0},
    {"save_model": True},
    {"on_bad_sample": "skip"},
    {"on_nan": "skip"},
    {"dataset": "imagenet", "model": "resnet50"},
]


def test_every_engine_has_a_launcher_and_a_program() -> None:
    assert tuple(engines.ENGINES) == get_args(Engine)
    assert {engine.launcher for engine in engines.ENGINES.values()} <= set(LAUNCHERS)
    assert all(find_spec(f"orchestrator.trainer.{engines.program(Train(engine=name))}") for name in get_args(Engine))


@pytest.mark.parametrize("engine", OTHERS)
def test_engine_accepts_settings_common_to_all(engine: Engine) -> None:
    engines.require(Train(engine=engine, **FOLLOWED))
    engines.require(Train(engine=engine, **{**FOLLOWED, "precision": "bfloat16", "steps": 3, "seed": 7}))


@pytest.mark.parametrize("setting", REFUSED, ids=str)
def test_unsupported_setting_of_an_engine_is_named(setting: dict[str, Any]) -> None:
    values = {**FOLLOWED, **setting}
    key = next(iter(setting))
    with pytest.raises(ConfigError, match=f"train.{key}: .*: engine torch-ddp takes") as caught:
        engines.require(Train(engine="torch-ddp", **values))
    assert "--engine ours" in caught.value.hint
    engines.require(Train(**values))


def test_other_engine_names_its_file_of_weights() -> None:
    with pytest.raises(ConfigError, match=r"save_model: true: engine single takes no --save-model: .* weights\.npz"):
        engines.require(Train(engine="single", **FOLLOWED, save_model=True))


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        engines.require(Train(model="vgg16", dataset="cifar10", precision="auto", engine="horovod-torch"))
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "train.model",
        "train.augment",
        "train.precision",
    ]


def test_only_engines_of_horovod_send_fp16() -> None:
    half = {**FOLLOWED, "compression": "fp16"}
    engines.require(Train(engine="horovod-torch", **half))
    with pytest.raises(ConfigError, match="compression: fp16: engine single takes --compression none"):
        engines.require(Train(engine="single", **half))


def test_engines_of_pytorch_need_both_frameworks() -> None:
    without_tensorflow = {name for name, engine in engines.ENGINES.items() if "tensorflow" not in engine.frameworks}
    assert without_tensorflow == {"horovod-torch", "torch-ddp", "ray-torch"}
    assert all("both" in engine.frameworks for engine in engines.ENGINES.values())


def test_single_process_engine_has_one_rank() -> None:
    assert engines.launch_options(Train(engine="single"), Launch()).np == 1
    with pytest.raises(ConfigError, match=r"launch\.np: 2: engine single is one process"):
        engines.launch_options(Train(engine="single"), Launch(np=2))


def test_only_their_engine_has_parameter_servers() -> None:
    options = Launch(parameter_servers=2)
    counts = {name: engines.launch_options(Train(engine=name), options).parameter_servers for name in get_args(Engine)}
    assert counts == {name: 2 if name == "tensorflow-parameter-server" else None for name in counts}
    assert engines.launch_options(Train(engine="tensorflow-parameter-server"), Launch()).parameter_servers == 1


def test_other_engines_send_float32_if_the_recipe_has_auto() -> None:
    automatic = samples.train_config(compression="auto")
    assert engines.resolved(Train(engine="torch-ddp"), automatic).compression == "none"
    assert engines.resolved(Train(), automatic).compression == "auto"
