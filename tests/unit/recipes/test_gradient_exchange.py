"""Settings of the gradient exchange: flags, recipes, and refusals before a run starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import recipes
from orchestrator.config import Config, Train, load
from orchestrator.errors import ConfigError
from orchestrator.recipes import gradient_exchange
from orchestrator.runs import jobs
from orchestrator.state import StateDir
from tests import builders

PLAIN = {
    "backward_passes_per_step": 1,
    "compression": "auto",
    "hierarchical": None,
    "gradient_predivide_factor": 1.0,
    "adasum": False,
}
Making = Callable[..., Train]


@pytest.fixture
def own(tmp_path: Path) -> Making:
    def train(text: str = "", **flags: Any) -> Train:
        (tmp_path / "mine.yaml").write_text(text)
        return Train(model="resnet20", dataset="cifar10", recipe=tmp_path / "mine.yaml", **flags)

    return train


@pytest.mark.parametrize(
    ("recipe", "flags", "expected"),
    [
        ("", {}, {}),
        ("common: {adasum: true}\ncifar10: {compression: bf16}", {}, {"adasum": True, "compression": "bf16"}),
        ("common: {adasum: true, compression: bf16}", {"adasum": False}, {"compression": "bf16"}),
        ("common: {compression: bf16}", {"fp16_allreduce": True}, {"compression": "fp16"}),
        ("common: {compression: bf16}", {"compression": "none"}, {"compression": "none"}),
        ("common: {backward_passes_per_step: 4}", {"backward_passes_per_step": 2}, {"backward_passes_per_step": 2}),
        ("common: {hierarchical: false}", {}, {"hierarchical": False}),
        ("common: {hierarchical: false}", {"hierarchical": True}, {"hierarchical": True}),
        ("common: {gradient_predivide_factor: 2}", {}, {"gradient_predivide_factor": 2.0}),
    ],
)
def test_flags_override_recipes_and_recipes_the_defaults(
    own: Making, recipe: str, flags: dict[str, Any], expected: dict[str, Any]
) -> None:
    train = own(recipe, **flags)
    assert gradient_exchange.settings(train) == {**PLAIN, **expected}
    resolved = recipes.resolve(train, "run-1", "/shared/data/x", images=1000, world=2, threads=1, batch=8)
    assert resolved.model_dump(include=set(PLAIN)) == {**PLAIN, **expected}


def test_contradicting_names_of_one_setting_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fp16_allreduce is compression fp16, and compression is bf16: give one"):
        load(None, {"train.fp16_allreduce": True, "train.compression": "bf16"})
    assert load(None, {"train.fp16_allreduce": True, "train.compression": "fp16"}).train.compression == "fp16"


@pytest.mark.parametrize("key", ["adasum", "backward_passes_per_step"])
def test_booleans_and_numbers_are_not_interchangeable(tmp_path: Path, key: str) -> None:
    (tmp_path / "cluster.yaml").write_text(f"train: {{{key}: yes}}\nlaunch: {{autotune: yes}}\n")
    if key == "adasum":
        assert load(tmp_path / "cluster.yaml", {}).train.adasum is True
    else:
        with pytest.raises(ConfigError, match=r"train\.backward_passes_per_step: .*neither a number nor a name"):
            load(tmp_path / "cluster.yaml", {})


def test_step_takes_all_passes_out_of_a_ranks_share(own: Making) -> None:
    four = own(backward_passes_per_step=4)
    assert recipes.batch_size(four, images=80, world=2, memory=None) == 10
    with pytest.raises(ConfigError, match="batch_size: 11: each of 2 ranks x 4 backward passes has only 10 images"):
        recipes.batch_size(four.model_copy(update={"batch_size": 11}), images=80, world=2, memory=None)
    with pytest.raises(ConfigError, match=r"launch\.np: 2 ranks x 4 backward passes asked for, cifar10 has only 7"):
        recipes.batch_size(four, images=7, world=2, memory=None)


def test_steps_are_updates_and_set_the_number_of_epochs(own: Making) -> None:
    train = own("common: {epochs: 1}", steps=100, backward_passes_per_step=4)
    assert recipes.resolve(train, "run-1", "/d", images=640, world=2, threads=1, batch=8).epochs == 10


@pytest.mark.parametrize(
    ("settings", "controller", "ranks", "nodes", "problem"),
    [
        ({}, "gloo", 2, None, "launch.controller: gloo: Horovod supports Adasum only with mpi"),
        ({}, "mpi", 6, None, "train.adasum: 6 ranks: Horovod's Adasum needs 1, 2, 4, 8 or another power of two"),
        ({}, "mpi", 8, 3, "train.adasum: 3 nodes with GPUs: Horovod's Adasum needs 1, 2, 4"),
        ({"compression": "bf16"}, "mpi", 2, None, "train.compression: bf16: not with Adasum"),
        ({"gradient_predivide_factor": 2.0}, "mpi", 2, None, "train.gradient_predivide_factor: 2: not with Adasum"),
    ],
)
def test_unsupported_settings_of_adasum_are_refused(
    settings: dict[str, Any], controller: str, ranks: int, nodes: int | None, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        gradient_exchange.require({**PLAIN, "adasum": True, **settings}, controller, ranks, nodes)
    [message] = caught.value.problems
    assert message.startswith(problem)
    gradient_exchange.require({**PLAIN, **settings}, controller, ranks, nodes)


@pytest.mark.parametrize(("ranks", "nodes"), [(1, None), (2, None), (64, None), (6, 2)])
def test_adasum_accepts_powers_of_two(ranks: int, nodes: int | None) -> None:
    gradient_exchange.require({**PLAIN, "adasum": True, "compression": "fp16"}, "mpi", ranks, nodes)


@pytest.mark.parametrize(
    ("settings", "other"),
    [
        ({"compression": "none"}, "train.compression: none"),
        ({"compression": "fp16", "adasum": True}, "train.adasum: true"),
    ],
)
def test_means_within_nodes_first_need_means_in_16_bits(settings: dict[str, Any], other: str) -> None:
    with pytest.raises(ConfigError, match=f"train.hierarchical: true: not with {other}") as caught:
        gradient_exchange.require({**PLAIN, "hierarchical": True, **settings}, "mpi", 4, None)
    assert caught.value.hint == "--no-hierarchical, or --compression bf16 without Adasum"
    for hierarchical in (False, None):
        gradient_exchange.require({**PLAIN, "hierarchical": hierarchical, **settings}, "mpi", 4, None)
    for compression in ("auto", "bf16", "fp16"):
        gradient_exchange.require({**PLAIN, "hierarchical": True, "compression": compression}, "gloo", 4, None)


def test_all_problems_of_adasum_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        gradient_exchange.require({**PLAIN, "adasum": True, "compression": "bf16"}, "gloo", 6, None)
    assert len(caught.value.problems) == 3
    assert caught.value.hint == "--no-adasum, or --controller mpi on 4 ranks without the others"


def test_adasum_on_three_ranks_is_refused_before_any_contact(state_dir: StateDir) -> None:
    """The cluster has no node, so contacting one would fail."""
    train = Train(model="resnet20", dataset="synthetic", adasum=True)
    config = Config(train=train, launch={"controller": "mpi"})
    with pytest.raises(ConfigError, match=r"train\.adasum: 3 ranks"):
        jobs.train(state_dir, builders.cluster(nodes=3), builders.DIGEST, config)


@pytest.fixture
def state_dir() -> StateDir:
    return builders.deployed(nodes=3)
