"""Draw the initial weights of a run: ``python -m orchestrator.trainer.engines.initial_weights RUN_DIRECTORY``."""

import sys
from pathlib import Path

from orchestrator.trainer.engines import keras_network, step_inputs, weight_files
from orchestrator.trainer.models import networks_by_name


def main(run_directory: Path) -> None:
    """Write the weights that ``train`` begins with."""
    config = step_inputs.read_config(run_directory)
    model = networks_by_name.build(config.model, config.image_size, config.channels, config.classes, config.seed)
    weight_files.write(run_directory / weight_files.INITIAL, keras_network.read(model))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
