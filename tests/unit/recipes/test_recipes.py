"""Models, data sets, and the resolved configuration of a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import recipes
from orchestrator.config import Launch, Train
from orchestrator.errors import ConfigError
from orchestrator.recipes import validate_recipe
from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import sdss

RESNET101 = Train(model="resnet101", dataset="imagenet")
KNOWN = ", ".join(recipes.models())
TABLES = [dataset for dataset in recipes.datasets() if recipes.samples(dataset) == "rows"]
OF_ANY_SIZE = ("synthetic", "imagenet")
FOR_LARGE_IMAGES = ("alexnet", "googlenet", "inception_v3")


def is_compatible(model: str, dataset: str) -> bool:
    if model == "dense" or dataset in TABLES:
        return model == "dense" and dataset in TABLES
    return dataset in OF_ANY_SIZE or model not in FOR_LARGE_IMAGES


EVERY_PAIR = [(model, dataset) for model in recipes.models() for dataset in recipes.datasets()]
PAIRS = [pair for pair in EVERY_PAIR if is_compatible(*pair)]


def resolve(train: Train, world: int = 2, batch: int | None = None, images: int = 10_000) -> TrainConfig:
    size = batch or int(recipes.recipe(train)["batch_size"])
    data = None if train.dataset == "synthetic" else "/shared/data/x"
    return recipes.resolve(train, run="run-1", data=data, images=images, world=world, threads=3, batch=size)


def test_models_and_data_sets_of_the_papers_are_known() -> None:
    networks = {"lenet", "alexnet", "googlenet", "vgg16", "inception_v3", "resnet20", "resnet50", "resnet101"}
    assert set(recipes.models()) == networks | {"mobilenet_v2", "dense"}
    assert list(recipes.datasets()) == ["synthetic", "mnist", "fashion_mnist", "cifar10", "sdss", "imagenet"]


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_every_model_resolves_on_every_compatible_data_set(model: str, dataset: str) -> None:
    resolved = resolve(Train(model=model, dataset=dataset))
    data = None if dataset == "synthetic" else "/shared/data/x"
    assert (resolved.model, resolved.dataset, resolved.data) == (model, dataset, data)
    assert resolved.epochs >= 1
    assert resolved.warmup_epochs <= resolved.epochs


@pytest.mark.parametrize(("model", "dataset"), sorted({*EVERY_PAIR} - {*PAIRS}))
def test_incompatible_model_and_data_set_are_both_named(model: str, dataset: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model=model, dataset=dataset))
    [problem] = caught.value.problems
    assert {model, dataset} <= set(re.findall(r"\w+", problem))


@pytest.mark.parametrize(
    ("model", "dataset", "size", "problem"),
    [
        ("alexnet", "mnist", None, "train.dataset: images of mnist have 28 pixels: alexnet needs at least 63"),
        ("inception_v3", "imagenet", 74, "train.image_size: 74: inception_v3 needs at least 75"),
        ("lenet", "synthetic", 11, "train.image_size: 11: lenet needs at least 12"),
        ("resnet20", "sdss", None, "train.model: resnet20 needs images, sdss is a table: use dense"),
    ],
)
def test_error_names_the_requirement(model: str, dataset: str, size: int | None, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model=model, dataset=dataset, image_size=size))
    assert caught.value.problems == [problem]


@pytest.mark.parametrize("model", recipes.models())
def test_packaged_recipes_are_valid_and_describe_the_network(model: str, tmp_path: Path) -> None:
    facts = {"input", "parameters", "minimum_size", "expected", "memory", "small_memory", "table"}
    card = recipes.card(model)
    sections = {key: value for key, value in card.items() if key not in facts}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(sections))
    assert validate_recipe.user_recipe(tmp_path / "recipe.yaml", list(recipes.datasets())) == sections
    assert facts - {"table", "small_memory"} <= set(card)
    assert set(card["expected"]) <= set(recipes.datasets())
    assert all(0 < figures["top1"] < 100 and figures["source"] for figures in card["expected"].values())


def test_recipe_keys_are_keys_of_train_and_launch() -> None:
    of_launch = set(recipes.gradient_exchange.OF_LAUNCH)
    assert of_launch <= set(Launch.model_fields) - set(TrainConfig.model_fields)
    assert set(validate_recipe.Settings.model_fields) <= set(TrainConfig.model_fields) | of_launch


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Train]:
    def train(text: str) -> Train:
        (tmp_path / "mine.yaml").write_text(text)
        return Train(model="resnet20", dataset="cifar10", recipe=tmp_path / "mine.yaml")

    return train


def test_own_recipe_overrides_model_and_data_set_defaults(
    own: Callable[[str], Train],
) -> None:
    resolved = resolve(own("common: {epochs: 3, optimizer: adam, rho: 0.999}\ncifar10: {epochs: 4, shift: 2}\n"))
    assert (resolved.epochs, resolved.optimizer, resolved.rho, resolved.shift) == (4, "adam", 0.999, 2)
    assert resolved.weight_decay == resolve(Train(model="resnet20", dataset="cifar10")).weight_decay


def test_adam_has_its_published_constants_unless_the_recipe_sets_them(own: Callable[[str], Train]) -> None:
    resolved = resolve(own("common: {optimizer: adam, learning_rate: 0.001}"))
    assert (resolved.momentum, resolved.rho, resolved.epsilon) == (0.9, 0.999, 1e-7)
    inception = own("common: {optimizer: adam, rho: 0.99}").model_copy(
        update={"model": "inception_v3", "dataset": "imagenet"}
    )
    assert (recipes.recipe(inception)["momentum"], recipes.recipe(inception)["rho"]) == (0.9, 0.99)


@pytest.mark.parametrize(
    ("model", "dataset", "optimizer", "momentum", "rho"),
    [
        ("inception_v3", "imagenet", "sgd", 0.9, 0.9),  # its own momentum is that of RMSProp, 0
        ("dense", "sdss", "rmsprop", 0.0, 0.9),  # its own are Adam's beta 1 and beta 2
        ("resnet50", "imagenet", "rmsprop", 0.0, 0.9),
        ("resnet50", "imagenet", "adam", 0.9, 0.999),
    ],
)
def test_other_optimizer_has_its_own_constants(
    own: Callable[[str], Train], model: str, dataset: str, optimizer: str, momentum: float, rho: float
) -> None:
    train = own(f"common: {{optimizer: {optimizer}}}").model_copy(update={"model": model, "dataset": dataset})
    resolved = resolve(train)
    assert (resolved.optimizer, resolved.momentum) == (optimizer, momentum)
    assert resolved.rho == rho or optimizer == "sgd"
    assert optimizer != "rmsprop" or resolved.epsilon == 1e-7


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam"])
def test_models_optimizer_keeps_its_constants_in_an_own_recipe(own: Callable[[str], Train], optimizer: str) -> None:
    model, dataset = {"sgd": ("resnet50", "imagenet"), "rmsprop": ("inception_v3", "imagenet")}.get(
        optimizer, ("dense", "sdss")
    )
    train = own(f"common: {{optimizer: {optimizer}}}").model_copy(update={"model": model, "dataset": dataset})
    assert resolve(train) == resolve(Train(model=model, dataset=dataset)).model_copy(update={"optimizer": optimizer})


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_only_images_that_keep_their_class_are_mirrored(model: str, dataset: str) -> None:
    """With --augment too, whatever the recipe augments by itself."""
    resolved = resolve(Train(model=model, dataset=dataset, augment=True))
    assert resolved.flip == (dataset != "mnist")


@pytest.mark.parametrize(
    ("dataset", "epochs", "described"),
    [("imagenet", 3, True), ("imagenet", 5, True), ("imagenet", 6, False), ("synthetic", 1, False)],
)
def test_warm_up_of_the_whole_run_is_described(dataset: str, epochs: int, described: bool) -> None:
    config = resolve(Train(model="resnet50", dataset=dataset, epochs=epochs))
    expected = "the warm-up of 5 epochs takes the whole run: the learning rate never falls" if described else ""
    assert recipes.endless_warm_up(config).partition(";")[0] == expected


def test_network_is_saved_only_if_asked_for() -> None:
    train = Train(model="resnet20", dataset="cifar10")
    assert not resolve(train).save_model
    assert resolve(train.model_copy(update={"save_model": True})).save_model


def test_flags_override_an_own_recipe(own: Callable[[str], Train]) -> None:
    train = own("common: {epochs: 3, batch_size: 16, learning_rate: 0.1}")
    assert resolve(train.model_copy(update={"epochs": 5})).epochs == 5
    assert recipes.batch_size(train, images=1000, world=2, memory=None) == 16
    assert resolve(train, batch=8).learning_rate == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("common: {batch_size: 256}", 0.2),
        ("cifar10: {batch_size: 256}", 0.2),
        ("common: {batch_size: 32}\ncifar10: {batch_size: 256}", 0.2),
        ("mnist: {batch_size: 256, learning_rate: 0.7}", 0.05),
        ("common: {learning_rate: 0.3}\ncifar10: {batch_size: 256}", 0.3),
        ("cifar10: {batch_size: 256, learning_rate: 0.3}", 0.3),
    ],
)
def test_batch_size_of_an_own_recipe_scales_the_learning_rate(
    own: Callable[[str], Train], text: str, rate: float
) -> None:
    assert resolve(own(text)).learning_rate == pytest.approx(rate)


def test_batch_size_has_the_same_learning_rate_by_recipe_and_flag(own: Callable[[str], Train]) -> None:
    flag = resolve(Train(model="resnet20", dataset="cifar10", batch_size=256), batch=256)
    assert resolve(own("common: {batch_size: 256}")) == flag


def test_recipe_with_fewer_classes_than_the_data_is_refused(own: Callable[[str], Train]) -> None:
    train = own("imagenet: {classes: 100}").model_copy(update={"dataset": "imagenet", "data": Path("tiny")})
    recipes.require_classes(train, 100)
    with pytest.raises(ConfigError, match="classes: 100: tiny has images of 200 classes") as caught:
        recipes.require_classes(train, 200)
    assert f"set classes: 200 in {train.recipe}" in caught.value.hint


def test_own_recipe_sets_horovods_exchange_unless_flags_do(own: Callable[[str], Train]) -> None:
    train = own("common: {cycle_time: 25, fusion_threshold: 64, autotune: true, adasum: true}")
    options = recipes.gradient_exchange.launch_options(train, Launch(cycle_time=2, autotune=False))
    assert (options.cycle_time, options.fusion_threshold, options.autotune, options.controller) == (2, 64, False, "mpi")
    assert recipes.gradient_exchange.launch_options(train, Launch()).autotune
    assert resolve(train).adasum
    train = own("common: {adasum: true}")
    assert recipes.gradient_exchange.launch_options(train, Launch()).cycle_time is None  # Horovod fuses in cycles


@pytest.mark.parametrize(
    ("engine", "options", "cycle"),
    [
        ("ours", {}, 25),
        ("ours", {"cycle_time": 2}, 2),
        ("ours", {"autotune": True}, None),
        ("horovod-tensorflow", {}, None),
    ],
)
def test_cycle_is_long_if_gradients_do_not_wait_for_it(engine: str, options: dict[str, Any], cycle: float) -> None:
    train = Train.model_validate({"model": "resnet20", "dataset": "cifar10", "engine": engine})
    assert recipes.gradient_exchange.launch_options(train, Launch(**options)).cycle_time == cycle


def test_empty_recipe_changes_nothing(own: Callable[[str], Train]) -> None:
    assert resolve(own("")) == resolve(Train(model="resnet20", dataset="cifar10"))


def test_all_problems_of_a_recipe_are_reported_at_once(own: Callable[[str], Train]) -> None:
    keys = "epoch: 3, learning_rate: fast, augment: 7, clip_norm: true, cycle_time: 1001"
    wrong = [f"common: {{{keys}}}", "cifar: {epochs: 1}"]
    train = own("\n".join([*wrong, "mnist: {epochs: null}"]))
    with pytest.raises(ConfigError) as caught:
        recipes.require(train)
    assert {problem.removeprefix(f"{train.recipe}: ").partition(":")[0] for problem in caught.value.problems} == {
        "common.epoch", "common.learning_rate", "common.augment", "common.clip_norm", "common.cycle_time", "cifar",
        "mnist.epochs",
    }  # fmt: skip
    assert "common.epoch: unknown key, did you mean common.epochs?" in str(caught.value)
    assert "cifar: unknown key, did you mean cifar10?" in str(caught.value)


@pytest.mark.parametrize(("key", "most"), [("classes", 100_000), ("shift", 1024)])
def test_recipe_with_a_number_that_fits_in_no_memory_is_refused(
    own: Callable[[str], Train], key: str, most: int
) -> None:
    with pytest.raises(ConfigError, match=f"imagenet.{key}: {most + 1}: must be less than or equal to {most}"):
        recipes.require(own(f"imagenet: {{{key}: {most + 1}}}"))


@pytest.mark.parametrize(("text", "problem"), [("a: [", "not YAML"), ("- 1", "valid dictionary"), ("3", "dictionary")])
def test_file_that_is_not_a_recipe_is_refused(own: Callable[[str], Train], text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        recipes.require(own(text))


def test_missing_recipe_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"train\.recipe: no\.yaml: No such file"):
        recipes.require(Train(model="lenet", dataset="mnist", recipe=Path("no.yaml")))


def test_recipe_cannot_change_size_or_classes_of_a_data_set(own: Callable[[str], Train]) -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(own("common: {image_size: 64, classes: 7}"))
    assert [problem.partition(": ")[2] for problem in caught.value.problems] == [
        "image_size: 64: cifar10 has 32",
        "classes: 7: cifar10 has 10",
    ]


IMAGE_MODELS = [model for model in recipes.models() if model != "dense"]


@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_only_synthetic_runs_create_images_for_each_rank(model: str) -> None:
    images = recipes.training_images("synthetic", None, world=3)
    assert images == 3 * 512
    assert resolve(Train(model=model, dataset="synthetic"), world=3, images=images).synthetic_images == images
    assert resolve(Train(model=model, dataset="imagenet"), world=3).synthetic_images == 0


def test_flags_override_the_recipe() -> None:
    flags = {
        "epochs": 7,
        "steps": 9,
        "max_time": 60,
        "learning_rate": 0.3,
        "image_size": 96,
        "test_samples": 5,
        "seed": 5,
    }
    resolved = resolve(Train(model="resnet50", dataset="imagenet", precision="bfloat16", **flags))
    assert resolved.model_dump(include=set(flags)) == {**flags, "max_time": 60.0}
    assert resolved.precision == "bfloat16"


def test_learning_rate_of_a_recipe_scales_with_the_batch_size() -> None:
    train = Train(model="resnet50", dataset="imagenet")
    assert resolve(train, batch=32).learning_rate == pytest.approx(0.0125)
    assert resolve(train, batch=8).learning_rate == pytest.approx(0.0125 / 4)


def test_own_learning_rate_is_not_scaled() -> None:
    assert resolve(Train(model="resnet50", dataset="imagenet", learning_rate=0.2), batch=8).learning_rate == 0.2


def test_steps_beyond_the_recipes_epochs_add_epochs() -> None:
    train = Train(model="resnet20", dataset="mnist", steps=1000)
    assert resolve(train, batch=32, world=2, images=640).epochs == 100
    assert resolve(train.model_copy(update={"steps": 12}), batch=32, world=2, images=640).epochs == 5
    assert resolve(train.model_copy(update={"epochs": 3}), batch=32, world=2, images=640).epochs == 3


@pytest.mark.parametrize(("images", "world", "batch"), [(10_000, 2, 32), (90, 8, 11), (8, 8, 1)])
def test_batch_is_at_most_a_ranks_share_of_the_images(images: int, world: int, batch: int) -> None:
    assert recipes.batch_size(RESNET101, images, world, memory=None) == batch


def test_own_batch_size_is_used_or_refused_and_never_changed() -> None:
    own = RESNET101.model_copy(update={"batch_size": 64})
    assert recipes.batch_size(own, images=128, world=2, memory=1 << 20) == 64
    with pytest.raises(ConfigError, match=r"train\.batch_size: 64: each of 2 ranks has only 50 images"):
        recipes.batch_size(own, images=100, world=2, memory=None)


def test_more_ranks_than_images_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"launch\.np: 9 ranks asked for, imagenet has only 8 training images"):
        recipes.batch_size(RESNET101, images=8, world=9, memory=None)


def test_image_size_that_a_data_set_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.image_size: 64: images of mnist have 28 pixels"):
        recipes.require(Train(model="resnet20", dataset="mnist", image_size=64))


def test_table_has_no_pixels_and_rows_in_place_of_images() -> None:
    with pytest.raises(ConfigError, match=r"train\.image_size: 64: sdss is a table"):
        recipes.require(Train(model="dense", dataset="sdss", image_size=64))
    with pytest.raises(ConfigError, match="9 ranks asked for, sdss has only 8 training rows"):
        recipes.batch_size(Train(model="dense", dataset="sdss"), images=8, world=9, memory=None)


def test_table_is_as_wide_as_its_features() -> None:
    dataset = recipes.datasets()["sdss"]
    assert (dataset["channels"], dataset["classes"]) == (len(sdss.FEATURES), len(sdss.CLASSES))


@pytest.mark.parametrize(("mebibytes", "batch"), [(1 << 20, 32), (4096, 13), (2212, 1)])
def test_batch_shrinks_until_it_fits_a_ranks_memory(mebibytes: int, batch: int) -> None:
    assert recipes.batch_size(RESNET101, images=10_000, world=1, memory=mebibytes << 20) == batch


def test_smaller_images_allow_larger_batches() -> None:
    small = RESNET101.model_copy(update={"image_size": 112})
    assert recipes.fitting_batch(small, 3 << 30) > recipes.fitting_batch(RESNET101, 3 << 30)


def test_less_downsampling_needs_more_memory_than_the_pixels() -> None:
    train = Train(model="resnet50", dataset="cifar10")
    assert recipes.fitting_batch(train, 3 << 30) == int((3072 * 0.9 - 1250) / 30)


@pytest.mark.parametrize("mebibytes", [0, 1024, 2210])
def test_too_little_memory_for_one_image_is_refused(mebibytes: int) -> None:
    problem = f"resnet101 at 224 pixels needs 2211 MiB, and has {mebibytes} MiB"
    with pytest.raises(ConfigError, match=problem) as caught:
        recipes.fitting_batch(RESNET101, mebibytes << 20)
    assert "--image-size" in caught.value.hint


@pytest.mark.parametrize(
    ("model", "dataset", "problem"),
    [
        ("resnet5", "mnist", "train.model: 'resnet5' is unknown, did you mean resnet50?"),
        ("bert", "mnist", f"train.model: 'bert' is unknown (known: {KNOWN})"),
        ("resnet20", "imagnet", "train.dataset: 'imagnet' is unknown, did you mean imagenet?"),
        (None, "mnist", f"train.model: missing; one of {KNOWN}"),
        ("resnet20", "datasets", "train.dataset: 'datasets' is unknown"),
        ("datasets", "mnist", "train.model: 'datasets' is unknown"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest_name(model: str | None, dataset: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model=model, dataset=dataset))
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_unknown_model_and_data_set_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        recipes.require(Train(model="x", dataset=None))
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["train.model", "train.dataset"]


@pytest.mark.parametrize("model", recipes.models())
def test_every_recipe_cites_the_paper_of_its_numbers(model: str) -> None:
    text = (recipes.DIRECTORY / f"{model}.yaml").read_text()
    head = text[: text.index("common:")]
    assert re.search(r"^# \w+ (et al\.|and \w+) \d{4}, \".+\"", head)
    assert re.search(r"section \d", head)
    assert "measured with TensorFlow" in head


def test_whole_test_split_is_evaluated_by_default() -> None:
    assert resolve(Train(model="resnet20", dataset="mnist")).test_samples is None
    assert resolve(Train(model="resnet20", dataset="mnist", test_samples=64)).test_samples == 64
    with pytest.raises(ValueError, match="test_samples"):
        Train(test_samples=0)
