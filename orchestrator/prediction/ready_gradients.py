"""Gradients of a network in the order of backpropagation, and when each is ready, estimated from its layers."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.schema.bounded_files import read_json

FILE = Path(__file__).with_name("networks.json")  # made by scripts/write_networks.py
# Multiplications in the time of one output's way through memory (batch normalisation and activation, forward and
# backward, about 32 bytes): 280 on a V100 (7 T/s in convolutions, 0.8 TB/s), 160 on a core of a Xeon (50 G/s, 10 GB/s).
OUTPUT_COST = 200


class Gradient(NamedTuple):
    """Gradients that are ready together: ``bytes`` in float32, ``ready`` as the share (0 to 1) of backpropagation."""

    bytes: float
    ready: float


@cache
def _networks() -> dict[str, Any]:
    networks: dict[str, Any] = read_json(FILE)
    return networks


def estimate(model: str, image_size: int, classes: int) -> tuple[Gradient, ...]:
    """Return the gradients of each layer, the last layer's first.

    A layer's share of backpropagation is that of its multiplications and outputs, which a GPU and a CPU take about
    proportionally as long for. The shares come from the nearest image size that is known.

    Args:
        model: Name of the network.
        image_size: Height and width in pixels.
        classes: Number of classes, which the size of the last layer follows.

    Returns:
        Gradients, in the order in which they are ready.
    """
    network = _networks()[model]
    nearest = min(network["layers"], key=lambda size: abs(int(size) - image_size))
    layers = [list(layer) for layer in network["layers"][nearest]]
    layers[-1][0] *= classes / network["classes"]
    costs = [products * 1e6 + OUTPUT_COST * outputs * 1e6 for _, products, outputs in layers]
    done, gradients = 0.0, list[Gradient]()
    for (numbers, _, _), cost in zip(reversed(layers), reversed(costs), strict=True):
        done += cost
        gradients.append(Gradient(4.0 * numbers, min(1.0, done / sum(costs))))
    return tuple(gradients)
