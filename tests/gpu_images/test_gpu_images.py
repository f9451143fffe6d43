"""The images for GPUs, on a machine without one: Horovod has NCCL, and ranks train on CPUs."""

from collections.abc import Callable

from orchestrator.gpu_compatibility import choose_driver
from tests.contract.conftest import PYTHON, ProgramResult
from tests.tests_in_image import Passes, passes

__all__ = ["passes"]
NAMES = {"tensorflow": "TensorFlow", "pytorch": "PyTorch"}
CHECKS = {"tensorflow": "tests/trainer/test_horovod_keras.py", "pytorch": "tests/trainer_pytorch/test_horovod.py"}
NCCL = {
    "tensorflow": "import horovod.tensorflow as hvd; print(hvd.nccl_built())",
    "pytorch": "import horovod.torch as hvd; print(hvd.nccl_built())",
}


def test_horovod_was_built_with_nccl_gloo_and_mpi(framework: str, in_image: Callable[..., ProgramResult]) -> None:
    shown = in_image([PYTHON.replace("python", "horovodrun"), "--check-build"])
    assert shown.code == 0, shown.text
    for feature in (NAMES[framework], "NCCL", "Gloo", "MPI"):
        assert f"[X] {feature}" in shown.text


def test_nccl_is_the_version_of_the_table(framework: str, in_image: Callable[..., ProgramResult]) -> None:
    major, minor, patch = map(int, choose_driver._table()["images"][framework]["nccl"].split("."))
    shown = in_image([PYTHON, "-c", NCCL[framework]])
    assert shown.text.split()[-1] == str(major * 10000 + minor * 100 + patch), shown.text


# PyTorch is linked to the libraries of CUDA that it uses. On a node with a GPU, TensorFlow opens these by the search
# path of the library that opens them, and ignores all GPUs if one is missing. TF_CPP_VMODULE=dso_loader=3 logs them.
OPENED = {
    "pytorch": "import torch; print('all opened')",
    "tensorflow": """
import ctypes, os, re
from tensorflow import sysconfig
library = os.path.join(sysconfig.get_lib(), "libtensorflow_framework.so.2")
path = max(re.findall(rb"\\$ORIGIN[^\\0]*", open(library, "rb").read()), key=len).decode()
directories = path.replace("$ORIGIN", os.path.dirname(library)).split(":")
for name in ("cudart.so.12", "cublas.so.12", "cublasLt.so.12", "cufft.so.11", "cusolver.so.11", "cusparse.so.12",
             "cudnn.so.9"):
    found = [file for file in (f"{directory}/lib{name}" for directory in directories) if os.path.exists(file)]
    ctypes.CDLL(found[0])
print("all opened")
""",
}


def test_libraries_of_cuda_are_found(framework: str, in_image: Callable[..., ProgramResult]) -> None:
    shown = in_image([PYTHON, "-c", OPENED[framework]])
    assert shown.text.endswith("all opened\n"), shown.text


def test_horovod_tests_pass_on_two_cpu_ranks(framework: str, passes: Passes) -> None:
    passes([CHECKS[framework]])


def test_image_has_only_the_compiler_that_torch_compile_needs(
    framework: str, in_image: Callable[..., ProgramResult]
) -> None:
    shown = in_image(["/bin/sh", "-c", "! command -v nvcc; command -v g++ || true"])
    assert shown.text.split() == (["/usr/bin/g++"] if framework == "pytorch" else []), shown.text
