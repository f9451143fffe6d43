"""A local cluster whose nodes have both frameworks, and runs of engines on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cluster import PYTHON
from orchestrator.docker.engine import Engine
from orchestrator.schema import Results
from tests import samples
from tests.conftest import Missing, built
from tests.e2e.command import Cli, docker

CLUSTER = "e2e-engines"
HEAD = f"{CLUSTER}-head"
TRAINER_WEIGHTS = Path(__file__).parent / "scripts" / "trainer_weights.py"
Train = Callable[..., Results]


@pytest.fixture(scope="session")
def node_image(docker_engine: Engine, missing: Missing) -> str:
    """Return the tag of the node image with both frameworks."""
    return built("both", docker_engine, missing)


@pytest.fixture(scope="session")
def cli(node_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    command = Cli(tmp_path_factory.mktemp("state"))
    command("deploy", "--framework", "both", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
    yield command
    command("teardown", "--discard-runs", cluster=CLUSTER)


@pytest.fixture(scope="session")
def train(cli: Cli) -> Train:
    """Train MODEL on MNIST with an engine, and return its results; the same run is not repeated."""
    cached: dict[tuple[str, ...], Results] = {}

    def run(engine: str, model: str, *options: str) -> Results:
        words = ("train", model, "--dataset", "mnist", "--data", str(samples.MNIST), "--no-augment", *options)
        key = (engine, *words)
        if key not in cached:
            results = cli.json(*words, "--precision", "float32", "--engine", engine, cluster=CLUSTER)
            cached[key] = Results.model_validate(results)
        return cached[key]

    return run


def weights(run: Results, directory: Path) -> dict[str, np.ndarray]:
    """Copy the weights of a run from the head: the engine's file, or weights of the trainer's newest checkpoint."""
    source, target = f"/shared/runs/{run.run}", directory / f"{run.run}.npz"
    if run.engine == "ours":
        docker("cp", "-q", str(TRAINER_WEIGHTS), f"{HEAD}:/tmp")
        docker("exec", HEAD, PYTHON, f"/tmp/{TRAINER_WEIGHTS.name}", source)
    docker("cp", "-q", f"{HEAD}:{source}/weights.npz", str(target))
    with np.load(target) as content:
        return dict(content)
