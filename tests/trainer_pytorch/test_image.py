"""Packages and abilities of the image with PyTorch."""

import subprocess
import sys
from importlib import import_module, metadata, util
from pathlib import Path

import horovod
import pytest
import torch
import torchvision


@pytest.mark.parametrize("module", ["jupyterlab", "ipykernel", "prometheus_client", "pydantic", "pynvml"])
def test_imports_of_supervision_and_notebooks_exist(module: str) -> None:
    import_module(module)


def test_image_has_one_framework() -> None:
    assert util.find_spec("tensorflow") is None
    assert util.find_spec("keras") is None


def test_versions_equal_the_lock_file() -> None:
    assert torch.__version__.partition("+")[0] == metadata.version("torch")
    assert torchvision.__version__.partition("+")[0] == metadata.version("torchvision")


def test_query_for_gpus_finds_none() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert torch.backends.cudnn.version() > 0
    with pytest.raises((RuntimeError, AssertionError), match="NVIDIA"):
        torch.zeros(1, device="cuda")


def test_network_with_cuda_library_operations_runs_on_the_cpu() -> None:
    """Convolution, normalization, recurrence, attention, sparse and dense algebra, Fourier transform."""
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=10)
    loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 3, 64, 64)), torch.arange(4))
    loss.backward()
    torch.optim.AdamW(model.parameters()).step()
    recurrent, _ = torch.nn.LSTM(8, 16, batch_first=True)(torch.randn(2, 5, 8))
    attended, _ = torch.nn.MultiheadAttention(16, 4, batch_first=True)(recurrent, recurrent, recurrent)
    matrix = attended[0] @ attended[0].T + 5 * torch.eye(5)
    solved = torch.linalg.solve(matrix, torch.ones(5))
    torch.testing.assert_close(matrix.to_sparse() @ solved[:, None], torch.ones(5, 1))
    torch.testing.assert_close(torch.fft.ifft(torch.fft.fft(solved)).real, solved)
    assert torch.linalg.svdvals(matrix).min() > 0


def test_torch_compile_gives_the_same_loss() -> None:
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()
    model, images = torch.nn.Sequential(*layers, torch.nn.Linear(288, 10)), torch.randn(4, 3, 8, 8)
    losses = [
        torch.nn.functional.cross_entropy(forward(images), torch.arange(4)) for forward in (model, torch.compile(model))
    ]
    losses[1].backward()
    torch.testing.assert_close(losses[1], losses[0])
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_data_loader_processes_return_batches() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(8))
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=2)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_torchvision_transforms_an_image() -> None:
    image = torch.arange(48, dtype=torch.uint8).reshape(3, 4, 4)
    encoded = torchvision.io.encode_png(image)
    torch.testing.assert_close(torchvision.io.decode_image(encoded), image)
    assert torchvision.transforms.functional.resize(image, [2, 2]).shape == (3, 2, 2)
    boxes = torchvision.ops.nms(torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2]]), torch.tensor([0.9, 0.8]), 0.5)
    assert boxes.tolist() == [0]


def test_library_has_no_debug_information() -> None:
    [library] = (Path(horovod.__file__).parent / "torch").glob("mpi_lib_v2*.so")
    assert b".debug_info" not in library.read_bytes()


def test_packages_have_no_version_conflicts() -> None:
    result = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
