"""Train ResNet-50 in PyTorch, as fast as possible: run by ``bench.train`` in a container that has PyTorch, and by
``bench/gpu.sh`` on a GPU.

Optimizations: channels last, bfloat16 where autocast allows it (weights and their updates stay float32), one fused
operation for all updates, denormal numbers flushed to zero, input that is in memory already; on a GPU cuDNN's fastest
algorithms, and TF32 as in TensorFlow; on request, the model is compiled. Prints the images/s of every round as JSON.
The network is that of He et al. 2016 (CVPR) with the stride in the 3x3 convolution, as in the trainer.
"""

import argparse
import json
import time

import torch
from torch import Tensor, nn

EXPANSION, STAGES = 4, ((64, 3), (128, 4), (256, 6), (512, 3))


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, relu: bool = True) -> nn.Sequential:
    """Return a convolution with batch normalisation.

    Args:
        inputs: Input channels.
        outputs: Output channels.
        size: Height and width of the kernel.
        stride: Stride.
        relu: Whether a ReLU follows.

    Returns:
        The layers.
    """
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, nn.ReLU(inplace=True)) if relu else nn.Sequential(*layers)


class Block(nn.Module):
    """Residual block: 1x1, 3x3 and 1x1 convolutions, and a shortcut."""

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * filters
        self.inside = nn.Sequential(
            convolution(inputs, filters, 1),
            convolution(filters, filters, 3, stride),
            convolution(filters, outputs, 1, relu=False),
        )
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else convolution(inputs, outputs, 1, stride, relu=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.relu(self.inside(x) + self.around(x))
        return result


def resnet50(classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, (filters, count) in enumerate(STAGES):
        for block in range(count):
            layers.append(Block(inputs, filters, 2 if block == 0 and stage else 1))
            inputs = EXPANSION * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def rates(args: argparse.Namespace) -> list[float]:
    """Return the images/s of every round."""
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    model = resnet50(1000).to(device, memory_format=torch.channels_last).train()
    images = torch.randn(args.batch, 3, args.pixels, args.pixels).to(device, memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (args.batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)

    forward = torch.compile(model) if args.compile else model

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=args.precision == "bfloat16"):
            loss = nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step().item()
    measured = []
    for _ in range(args.rounds):
        started = time.perf_counter()
        for _ in range(args.steps):
            loss = step()
        loss.item()  # waits for a GPU
        measured.append(args.steps * args.batch / (time.perf_counter() - started))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("pixels", "batch", "steps", "rounds", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    args = parser.parse_args()
    print(json.dumps({"images_per_second": rates(args), "version": torch.__version__}))


if __name__ == "__main__":
    main()
