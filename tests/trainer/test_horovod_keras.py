"""Horovod's API on two ranks: with TensorFlow 2.21 and Keras 3, and with Keras 2 (tf_keras)."""

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.trainer import launcher
from tests.trainer.horovod_checks import PREFIX

TENSORS = (
    "collectives",
    "broadcast_variables",
    "gradient_tape",
    "local_sources",
    "groups_of_variables_with_one_name",
    "groups_without_gradients",
    "batch_normalization",
    "elastic_state_of_variables",
)
MODELS = (
    "optimizers_of_all_modules",
    "functions_of_the_keras_api",
    "broadcast_global_variables",
    "optimizer_options",
    "backward_passes",
    "sparse_gradients",
    "groups_of_the_tensorflow_api",
    "groups_of_frozen_layers",
    "two_synchronised_normalizations",
    "fit_with_callbacks",
    "local_layers",
    "local_variables_of_the_broadcast",
    "load_model",
    "best_model_checkpoint",
    "elastic_state",
    "spellings_of_keras_2",
    "xla",
    "loss_scale",
    "optimizer_behind_a_loss_scale",
    "schedules_of_own_classes",
    "schedule_behind_a_loss_scale",
    "load_model_with_a_schedule",
    "exclusion_from_weight_decay",
    "load_model_that_was_compiled_with_xla",
    "spellings_for_the_package_keras",
    "failures_of_elastic_functions",
)
Failures = dict[str, list[str]]


def failures_of(directory: Path, module: str) -> Failures:
    """Return the failures of each check on each rank."""
    program = [sys.executable, "-m", f"tests.trainer.horovod_checks.{module}"]
    output = launcher.launch(directory, program, options=["--stall-check-warning-time-seconds", "20"]).stdout
    print(output)
    failures_by_check = defaultdict(list)
    for line in output.splitlines():
        _, prefix, found_json = line.partition(PREFIX)
        if prefix:
            result = json.loads(found_json)
            failures_by_check[result["check"]].append(result["failure"])
    return failures_by_check


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Failures:
    return failures_of(tmp_path_factory.mktemp("tensors"), "tensors")


@pytest.fixture(scope="module", params=["Keras 3", "Keras 2"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Failures:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_USE_LEGACY_KERAS", "1" if request.param == "Keras 2" else "0")
        return failures_of(tmp_path_factory.mktemp("models"), "models")


@pytest.mark.parametrize("check", TENSORS)
def test_tensorflow_functions_accept_variables_of_keras_3(tensors: Failures, check: str) -> None:
    assert tensors[check] == ["", ""]


@pytest.mark.parametrize("check", MODELS)
def test_keras_api_works_with_keras_3_and_keras_2(models: Failures, check: str) -> None:
    assert models[check] == ["", ""]
