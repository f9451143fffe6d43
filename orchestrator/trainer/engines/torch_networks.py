"""The networks of ``trainer/models`` as modules of PyTorch, with the padding of TensorFlow ("same").

Modules are created in the order of the layers there, so that weights go by kind and number.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from orchestrator.schema import SMALL_IMAGE, TrainConfig
from orchestrator.trainer.engines.weight_files import Weights

EPSILON, MOMENTUM = 1e-5, 0.1  # PyTorch counts momentum from the other end: 0.9 in Keras
MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
LENET_IMAGE = 32


class Same(nn.Module):
    """Zeros around an image so that a window of ``size`` leaves every ``stride``-th pixel; more of them at the end."""

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        self.size, self.stride = size, stride

    def forward(self, x: Tensor) -> Tensor:
        zeros = [max(0, (-(-n // self.stride) - 1) * self.stride + self.size - n) for n in x.shape[:1:-1]]
        return functional.pad(x, [side for total in zeros for side in (total // 2, total - total // 2)])


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Residual(nn.Module):
    """Sum of two ways, then ReLU."""

    def __init__(self, inside: nn.Module, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.inside, self.shortcut, self.after = inside, shortcut, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.shortcut(x) + self.inside(x))


def convolution(inputs: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with TensorFlow's padding, without a bias, and batch normalisation."""
    padded = stride > 1 and size > 1
    conv = nn.Conv2d(inputs, filters, size, stride, 0 if padded else size // 2, groups=groups, bias=False)
    normalization = nn.BatchNorm2d(filters, eps=EPSILON, momentum=MOMENTUM)
    return nn.Sequential(*([Same(size, stride)] if padded else []), conv, normalization)


def lenet(config: TrainConfig) -> nn.Module:
    """As ``models.lenet_alexnet_vgg.lenet``."""
    padding = 2 if config.image_size < LENET_IMAGE else 0
    pixels = ((config.image_size + 2 * padding - 4) // 2 - 4) // 2
    flat = Function(lambda x: x.permute(0, 2, 3, 1).flatten(1))  # in TensorFlow's order: channels last
    return nn.Sequential(
        Function(lambda x: x * (1.275 / 4) + 0.5375),
        *(nn.Conv2d(config.channels, 6, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), flat),
        *(nn.Linear(16 * pixels**2, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, config.classes)),
    )


def resnet20(config: TrainConfig) -> nn.Module:
    """As ``models.resnet.resnet20``."""
    layers: list[nn.Module] = [convolution(config.channels, 16, 3), nn.ReLU()]
    inputs = 16
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            inside = [convolution(inputs, filters, 3, stride), nn.ReLU(), convolution(filters, filters, 3)]
            layers.append(_residual(inside, inputs, filters, stride))
            inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, config.classes))


def bottleneck(config: TrainConfig, blocks: tuple[int, ...]) -> nn.Module:
    """As ``models.resnet``: with 3, 4, 6 and 3 blocks resnet50, with 23 in the third stage resnet101."""
    small = config.image_size < SMALL_IMAGE
    first = [convolution(config.channels, 64, 3)] if small else [convolution(config.channels, 64, 7, 2)]
    layers = [*first, nn.ReLU(), *([] if small else [Same(3, 2), nn.MaxPool2d(3, 2)])]  # zeros are least after ReLU
    inputs = 64
    for stage, count in enumerate(blocks):
        filters = 64 * 2**stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            inside = [convolution(inputs, filters, 1), nn.ReLU(), convolution(filters, filters, 3, stride), nn.ReLU()]
            layers.append(_residual([*inside, convolution(filters, 4 * filters, 1)], inputs, 4 * filters, stride))
            inputs = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, config.classes))


def _residual(inside: list[nn.Module], inputs: int, filters: int, stride: int) -> nn.Module:
    same = stride == 1 and inputs == filters
    return Residual(
        nn.Sequential(*inside), nn.Identity() if same else convolution(inputs, filters, 1, stride), nn.ReLU()
    )


def mobilenet_v2(config: TrainConfig) -> nn.Module:
    """As ``models.mobilenet.mobilenet_v2``."""
    small = config.image_size < SMALL_IMAGE
    layers: list[nn.Module] = [convolution(config.channels, 32, 3, 1 if small else 2), nn.ReLU6()]
    inputs = 32
    for expansion, filters, count, first in MOBILENET:
        for block in range(count):
            stride = first if block == 0 and not (small and filters == 24) else 1
            wide = expansion * inputs
            inside = [] if expansion == 1 else [convolution(inputs, wide, 1), nn.ReLU6()]
            inside += [convolution(wide, wide, 3, stride, groups=wide), nn.ReLU6(), convolution(wide, filters, 1)]
            same = stride == 1 and inputs == filters
            way = nn.Sequential(*inside)
            layers.append(Residual(way, nn.Identity(), nn.Identity()) if same else way)
            inputs = filters
    last = [convolution(inputs, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, *last, nn.Linear(1280, config.classes))


BUILD: dict[str, Callable[[TrainConfig], nn.Module]] = {
    "lenet": lenet,
    "resnet20": resnet20,
    "resnet50": partial(bottleneck, blocks=(3, 4, 6, 3)),
    "resnet101": partial(bottleneck, blocks=(3, 4, 23, 3)),
    "mobilenet_v2": mobilenet_v2,
}


def build(config: TrainConfig, initial: Weights) -> nn.Module:
    """Return the network of ``config`` with these weights, from uint8 images (batch, height, width, channels)."""
    # About unit variance. The channels are moved without copying: the result is in PyTorch's format channels_last.
    scaled = Function(lambda x: x.permute(0, 3, 1, 2).float() / 64.0 - 2.0)
    network = nn.Sequential(scaled, BUILD[config.model](config)).to(memory_format=torch.channels_last)
    with torch.no_grad():
        for name, values in _variables(network):
            values.copy_(torch.from_numpy(initial[name]))
    return network


def read(network: nn.Module) -> Weights:
    """Return copies of a network's weights and statistics."""
    return {name: values.detach().numpy().copy() for name, values in _variables(network)}


def _variables(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield weights and statistics by name, each as a view in the shape of Keras."""
    numbers = Counter[str]()
    for module in network.modules():
        kind, views = _views(module)
        if kind:
            yield from ((f"{kind}/{numbers[kind]}/{name}", values) for name, values in views.items())
            numbers[kind] += 1


def _views(module: nn.Module) -> tuple[str, dict[str, Tensor]]:
    """Return the kind of a module with weights, and these by their names in Keras; no kind without any."""
    if isinstance(module, nn.BatchNorm2d):
        statistics = {"moving_mean": module.running_mean, "moving_variance": module.running_var}
        return "normalization", {"gamma": module.weight, "beta": module.bias, **statistics}
    if isinstance(module, nn.Conv2d):
        bias = {} if module.bias is None else {"bias": module.bias}
        if module.groups > 1:
            return "depthwise", {"kernel": module.weight.permute(2, 3, 0, 1), **bias}
        return "convolution", {"kernel": module.weight.permute(2, 3, 1, 0), **bias}
    if isinstance(module, nn.Linear):
        return "dense", {"kernel": module.weight.T, "bias": module.bias}
    return "", {}
