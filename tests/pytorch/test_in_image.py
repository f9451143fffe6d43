"""The worker side with PyTorch: tests/trainer_pytorch, inside the node image; and what its PyTorch has code for."""

from collections.abc import Callable

import pytest

from orchestrator import gpu_compatibility
from tests import worker_side
from tests.contract.conftest import PYTHON, Said
from tests.worker_side import Passes, passes

__all__ = ["passes"]
FILES = worker_side.files("trainer_pytorch")


@pytest.mark.parametrize("file", FILES)
def test_the_image_with_pytorch_passes_its_tests(passes: Passes, file: str) -> None:
    passes([file])


def test_the_table_of_gpus_refuses_those_that_pytorch_has_no_code_for(in_image: Callable[..., Said]) -> None:
    result = in_image([PYTHON, "-c", "import torch; print(*torch.cuda.get_arch_list())"])
    code = [divmod(int(name.removeprefix("sm_")), 10) for name in result.text.split()]
    for architecture, about in gpu_compatibility._table()["architectures"].items():
        for capability in about["capabilities"]:
            first, second = map(int, capability.split("."))
            runs = any(first == major and second >= minor for major, minor in code)
            assert runs == ("pytorch" not in about.get("refused", {})), architecture
