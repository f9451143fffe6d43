"""horovod.torch on two ranks, over Gloo and over MPI."""

import json
import sys
from collections import defaultdict

import pytest

from tests.trainer import launcher
from tests.trainer.horovod_checks import PREFIX

CHECKS = (
    "collectives",
    "process_sets",
    "optimizer_options",
    "backward_passes",
    "clipping",
    "every_optimizer",
    "broadcast_of_the_optimizer",
    "options_of_an_optimizer_without_state",
    "zero_grad",
    "learning_rate_schedule",
    "sync_batch_norm",
    "sync_batch_norm_options",
    "sync_batch_norm_in_16_bits",
    "elastic_state",
    "elastic_sampler",
)
Failures = dict[str, list[str]]


@pytest.fixture(scope="module", params=["gloo", "mpi"])
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Failures:
    """Return the failures of each check on each rank."""
    program = [sys.executable, "-m", "tests.trainer_pytorch.checks"]
    output = launcher.launch(tmp_path_factory.mktemp("run"), program, controller=request.param).stdout
    print(output)
    failures_by_check = defaultdict(list)
    for line in output.splitlines():
        _, prefix, result_json = line.partition(PREFIX)
        if prefix:
            result = json.loads(result_json)
            failures_by_check[result["check"]].append(result["failure"])
    return failures_by_check


@pytest.mark.parametrize("check", CHECKS)
def test_the_api_for_pytorch_works(failures: Failures, check: str) -> None:
    assert failures[check] == ["", ""]
