"""Models, data sets, and the resolved configuration of a run."""

import re

import pytest

from orchestrator import recipes
from orchestrator.config import Train
from orchestrator.errors import ConfigError
from orchestrator.schema import TrainConfig
from orchestrator.trainer import sdss

RESNET101 = Train(model="resnet101", dataset="imagenet")
OF_IMAGES = [dataset for dataset in recipes.datasets() if recipes.samples(dataset) == "images"]
EVERY_PAIR = [(model, dataset) for model in recipes.models() for dataset in OF_IMAGES]


def resolve(train: Train, world: int = 2, batch: int | None = None, images: int = 10_000) -> TrainConfig:
    size = batch or int(recipes.recipe(train)["batch_size"])
    data = None if train.dataset == "synthetic" else "/shared/data/x"
    return recipes.resolve(train, run="run-1", data=data, images=images, world=world, threads=3, batch=size)


def test_three_models_and_six_data_sets_are_known() -> None:
    assert recipes.models() == ["resnet101", "resnet20", "resnet50"]
    assert list(recipes.datasets()) == ["synthetic", "mnist", "fashion_mnist", "cifar10", "sdss", "imagenet"]


@pytest.mark.parametrize(("model", "dataset"), EVERY_PAIR)
def test_every_model_resolves_on_every_data_set(model: str, dataset: str) -> None:
    resolved = resolve(Train(model=model, dataset=dataset))
    data = None if dataset == "synthetic" else "/shared/data/x"
    assert (resolved.model, resolved.dataset, resolved.data) == (model, dataset, data)
    assert resolved.epochs >= 1
    assert resolved.warmup_epochs <= resolved.epochs


@pytest.mark.parametrize("model", recipes.models())
def test_only_a_synthetic_run_makes_images_and_as_many_per_rank(model: str) -> None:
    images = recipes.training_images("synthetic", None, world=3)
    assert images == 3 * 512
    assert resolve(Train(model=model, dataset="synthetic"), world=3, images=images).synthetic_images == images
    assert resolve(Train(model=model, dataset="mnist"), world=3).synthetic_images == 0


def test_flags_win_over_the_recipe() -> None:
    flags = {"epochs": 7, "steps": 9, "max_time": 60, "learning_rate": 0.3, "image_size": 96, "seed": 5}
    resolved = resolve(Train(model="resnet50", dataset="imagenet", precision="bfloat16", **flags))
    assert resolved.model_dump(include=set(flags)) == {**flags, "max_time": 60.0}
    assert resolved.precision == "bfloat16"


def test_the_recipes_learning_rate_follows_the_batch_size_in_proportion() -> None:
    train = Train(model="resnet50", dataset="imagenet")
    assert resolve(train, batch=32).learning_rate == pytest.approx(0.0125)
    assert resolve(train, batch=8).learning_rate == pytest.approx(0.0125 / 4)


def test_a_learning_rate_of_ones_own_follows_nothing() -> None:
    assert resolve(Train(model="resnet50", dataset="imagenet", learning_rate=0.2), batch=8).learning_rate == 0.2


def test_steps_that_need_more_epochs_than_the_recipe_has_get_them() -> None:
    train = Train(model="resnet20", dataset="mnist", steps=1000)
    assert resolve(train, batch=32, world=2, images=640).epochs == 100
    assert resolve(train.model_copy(update={"steps": 12}), batch=32, world=2, images=640).epochs == 5
    assert resolve(train.model_copy(update={"epochs": 3}), batch=32, world=2, images=640).epochs == 3


@pytest.mark.parametrize(("images", "world", "batch"), [(10_000, 2, 32), (90, 8, 11), (8, 8, 1)])
def test_a_batch_is_no_larger_than_a_ranks_share_of_the_images(images: int, world: int, batch: int) -> None:
    assert recipes.batch_size(RESNET101, images, world, memory=None) == batch


def test_a_batch_of_ones_own_is_taken_or_refused_never_changed() -> None:
    own = RESNET101.model_copy(update={"batch_size": 64})
    assert recipes.batch_size(own, images=128, world=2, memory=1 << 20) == 64
    with pytest.raises(ConfigError, match=r"train\.batch_size: 64: each of 2 ranks has only 50 images"):
        recipes.batch_size(own, images=100, world=2, memory=None)


def test_more_ranks_than_images_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"launch\.np: 9 ranks asked for, imagenet has only 8 training images"):
        recipes.batch_size(RESNET101, images=8, world=9, memory=None)


def test_a_size_that_the_images_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.image_size: 64: images of mnist have 28 pixels"):
        recipes.require(Train(model="resnet20", dataset="mnist", image_size=64))


def test_a_table_has_no_size_in_pixels_and_rows_for_images() -> None:
    with pytest.raises(ConfigError, match=r"train\.image_size: 64: sdss is a table"):
        recipes.require(Train(model="resnet20", dataset="sdss", image_size=64))
    with pytest.raises(ConfigError, match="9 ranks asked for, sdss has only 8 training rows"):
        recipes.batch_size(Train(model="resnet20", dataset="sdss"), images=8, world=9, memory=None)


def test_a_table_is_as_wide_as_the_features_that_are_read_of_it() -> None:
    found = recipes.datasets()["sdss"]
    assert (found["channels"], found["classes"]) == (len(sdss.FEATURES), len(sdss.CLASSES))


def test_resolving_twice_gives_the_same() -> None:
    train = Train(model="resnet20", dataset="cifar10")
    assert resolve(train, batch=16) == resolve(train, batch=16)


@pytest.mark.parametrize(("mebibytes", "batch"), [(1 << 20, 32), (4096, 13), (2212, 1)])
def test_the_batch_shrinks_until_it_fits_the_memory_of_a_rank(mebibytes: int, batch: int) -> None:
    assert recipes.batch_size(RESNET101, images=10_000, world=1, memory=mebibytes << 20) == batch


def test_smaller_images_leave_room_for_more_of_them() -> None:
    small = RESNET101.model_copy(update={"image_size": 112})
    assert recipes.fitting_batch(small, 3 << 30) > recipes.fitting_batch(RESNET101, 3 << 30)


@pytest.mark.parametrize("mebibytes", [0, 1024, 2210])
def test_a_rank_in_which_not_one_image_fits_is_refused_with_what_it_needs_and_has(mebibytes: int) -> None:
    problem = f"resnet101 at 224 pixels needs 2211 MiB, and has {mebibytes} MiB"
    with pytest.raises(ConfigError, match=problem) as caught:
        recipes.fitting_batch(RESNET101, mebibytes << 20)
    assert "--image-size" in caught.value.hint


@pytest.mark.parametrize(
    ("model", "dataset", "problem"),
    [
        ("resnet5", "mnist", "train.model: 'resnet5' is unknown, did you mean resnet50?"),
        ("vgg", "mnist", "train.model: 'vgg' is unknown (known: resnet101, resnet20, resnet50)"),
        ("resnet20", "imagnet", "train.dataset: 'imagnet' is unknown, did you mean imagenet?"),
        (None, "mnist", "train.model: missing; one of resnet101, resnet20, resnet50"),
        ("resnet20", "datasets", "train.dataset: 'datasets' is unknown"),
        ("datasets", "mnist", "train.model: 'datasets' is unknown"),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_the_nearest(model: str | None, dataset: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model=model, dataset=dataset))
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_an_unknown_model_and_an_unknown_data_set_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model="x", dataset=None))
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["train.model", "train.dataset"]


@pytest.mark.parametrize("model", recipes.models())
def test_every_recipe_cites_the_paper_its_numbers_come_from(model: str) -> None:
    text = (recipes.HERE / f"{model}.yaml").read_text()
    head = text[: text.index("common:")]
    assert re.search(r"^# \w+ et al\. \d{4}, \".+\"", head)
    assert re.search(r"section \d", head)
    assert "measured with TensorFlow" in head
