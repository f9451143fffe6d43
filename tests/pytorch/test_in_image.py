"""Run tests/trainer_pytorch inside the node image, and compare its PyTorch with the table of GPUs."""

from collections.abc import Callable

import pytest

from orchestrator.gpu_compatibility import choose_driver
from tests import tests_in_image
from tests.contract.conftest import PYTHON, ProgramResult
from tests.tests_in_image import Passes, passes

__all__ = ["passes"]
FILES = tests_in_image.files("trainer_pytorch")


@pytest.mark.parametrize("file", FILES)
def test_trainer_pytorch_tests_pass_in_the_image(passes: Passes, file: str) -> None:
    passes([file])


def test_gpu_table_refuses_gpus_without_code_in_pytorch(in_image: Callable[..., ProgramResult]) -> None:
    result = in_image([PYTHON, "-c", "import torch; print(*torch.cuda.get_arch_list())"])
    code = [divmod(int(name.removeprefix("sm_")), 10) for name in result.text.split()]
    for architecture, about in choose_driver._table()["architectures"].items():
        for capability in about["capabilities"]:
            first, second = map(int, capability.split("."))
            runs = any(first == major and second >= minor for major, minor in code)
            assert runs == ("pytorch" not in about.get("refused", {})), architecture
