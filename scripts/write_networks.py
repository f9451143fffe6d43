"""Write orchestrator/prediction/networks.json: the gradients of each network, and what its layers cost.

It builds the networks, so it runs inside the node image: ``python -m scripts.write_networks`` prints the file.
Layers are in the order of the network; batch normalisation and biases belong to the layer before them.
"""

import json
import math
from typing import Any

import keras

from orchestrator.trainer.models import networks_by_name

REFERENCE = {"lenet": (28, 1, 10), "resnet20": (32, 3, 10), "inception_v3": (299, 3, 1000), "dense": (1, 6, 3)}
SIZES = (224, 128, 64, 32)  # pixels, in addition to the reference's; a prediction uses the nearest size
LEAST = {"alexnet": 63, "googlenet": 64, "inception_v3": 75}
FIXED = ("lenet", "resnet20", "dense")  # networks of small images


def main() -> None:
    print(
        json.dumps(
            {name: network(name) for name in sorted([*networks_by_name.IMAGES, *networks_by_name.TABLES])}, indent=None
        )
    )


def network(name: str) -> dict[str, Any]:
    """Return the layers of a network by size of the image."""
    size, channels, classes = REFERENCE.get(name, (224, 3, 1000))
    sizes = [size] if name in FIXED else sorted({size, *SIZES}, reverse=True)
    usable = [pixels for pixels in sizes if pixels >= LEAST.get(name, 0)]
    return {"classes": classes, "layers": {str(pixels): layers(name, pixels, channels, classes) for pixels in usable}}


def layers(name: str, size: int, channels: int, classes: int) -> list[list[float]]:
    """Return numbers of each layer with weights: gradients, millions of multiplications and of outputs per image."""
    rows: list[list[float]] = []
    pending = 0.0  # outputs of layers without weights, whose gradients are computed before those of the layer before
    for layer in networks_by_name.build(name, size, channels, classes, 1).layers:
        outputs = math.prod(layer.output.shape[1:]) / 1e6 if hasattr(layer, "output") else 0.0
        gradients = sum(math.prod(variable.shape) for variable in layer.trainable_variables)
        if isinstance(layer, keras.layers.BatchNormalization):
            rows[-1][0] += gradients
            rows[-1][2] += outputs * _parts(layer)
        elif gradients:
            kernel = math.prod(layer.kernel.shape)
            positions = math.prod(layer.output.shape[1:-1])
            rows.append([gradients, positions * kernel / 1e6, outputs + pending])
            pending = 0.0
        elif rows:
            rows[-1][2] += outputs
        else:
            pending += outputs
    return [[int(gradients), round(products, 4), round(outputs, 5)] for gradients, products, outputs in rows]


def _parts(layer: keras.layers.BatchNormalization) -> int:
    """Return the number of outputs of a layer of normalisation, additions and an activation, each by itself."""
    added = len(layer.input) - 1 if isinstance(layer.input, list) else 0
    return 1 + added + int(layer.activation != "linear")


if __name__ == "__main__":
    main()
