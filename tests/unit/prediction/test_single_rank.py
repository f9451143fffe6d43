"""One rank's step, from a profile or only from its time."""

import pytest

from orchestrator import recipes
from orchestrator.prediction import ready_gradients, single_rank
from orchestrator.schema import Profile, Ready
from tests import builders


def test_profile_gives_median_step_and_readiness() -> None:
    rank_step = single_rank.from_profile(builders.profile(steps=[0.9, 1.0, 5.0]))
    assert rank_step.seconds == pytest.approx(1.0)
    assert [gradient.bytes for gradient in rank_step.gradients] == [8_000_000, 2_000_000]
    first, last = (gradient.ready for gradient in rank_step.gradients)
    assert last == 1.0
    assert (last - first) * rank_step.backward == pytest.approx(0.3)


@pytest.mark.parametrize(("on_gpu", "cores", "expected"), [(False, None, 2.0), (False, 0.5, 0.5), (True, 0.5, None)])
def test_cores_are_those_of_the_node_or_the_threads(on_gpu: bool, cores: float | None, expected: float | None) -> None:
    assert single_rank.from_profile(builders.profile(on_gpu=on_gpu), cores).cores == expected


def test_slowest_of_many_is_later_than_of_few() -> None:
    of_profile = single_rank.from_profile(builders.profile(steps=[1.0, 1.1, 1.2, 1.3]))
    of_time = single_rank.from_step(32, 1.0, of_profile.gradients)
    for rank_step in (of_profile, of_time):
        waits = [rank_step.waiting(ranks) for ranks in (1, 2, 8, 512)]
        assert waits[0] == pytest.approx(0)
        assert waits == sorted(waits)
        assert waits[-1] < 0.2


@pytest.mark.parametrize("model", recipes.models())
def test_estimated_gradients_are_those_of_the_recipe(model: str) -> None:
    card = recipes.card(model)
    gradients = ready_gradients.estimate(model, card["input"]["image_size"], card["input"]["classes"])
    assert sum(gradient.bytes for gradient in gradients) == 4 * card["parameters"]
    ready = [gradient.ready for gradient in gradients]
    assert ready == sorted(ready)
    assert ready[-1] == pytest.approx(1.0)


def test_fewer_classes_make_the_last_layer_smaller() -> None:
    many, few = (ready_gradients.estimate("resnet50", 224, classes)[0].bytes for classes in (1000, 10))
    assert few == many / 100


def test_profile_of_another_version_is_read() -> None:
    text = builders.profile().model_dump_json().replace('"run"', '"later":1,"run"')
    assert Profile.model_validate_json(text).gradients[0] == Ready(8_000_000, 0.3)
