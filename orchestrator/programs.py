"""What a run can be: our trainer, a script of the user's own, or the program that proves the cluster."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from orchestrator import datasets, progress, recipes, runs
from orchestrator.cluster import PYTHON, Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from orchestrator.launch import Run
from orchestrator.state import Home

SOURCE = "src"
MAX_SOURCE = 200 << 20  # bytes that a script's directory may have
LEFT_OUT = {
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "node_modules",
}


def train(place: Home, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start a training run. Everything that can be wrong with the input is found before a node is asked."""
    _, dataset = recipes.require(config.train)
    with progress.step(f"Checking data set {dataset}") as step:
        found = datasets.find(dataset, config.train.data, step.detail)
    if found and found.note:
        progress.note(f"{dataset}: {found.note}")
    command = [PYTHON, "-m", "orchestrator.trainer.train"]
    run = runs.plan(place, cluster, digest, config.launch, f"{config.train.model}-{dataset}", command)
    run = run.model_copy(update={"command": [*command, run.directory]})
    batch = config.train.batch_size or _batch(config, cluster, run)
    with runs.head_session(place, cluster) as head:
        remote = None
        if found:
            with progress.step(f"Placing {dataset} on the shared storage") as step:
                remote = datasets.place(head, found, step.detail)
        resolved = recipes.resolve(config.train, run.id, remote, run.np, run.threads, batch)
        with progress.step(f"Starting {run.id}"):
            runs.start(place, cluster, head, run, {}, {"config.json": resolved.model_dump_json(indent=2) + "\n"})
    return run


def _batch(config: Config, cluster: Cluster, run: Run) -> int:
    wanted = int(recipes.recipe(config.train)["batch_size"])
    if any(node.gpus for node in cluster.nodes.values()):
        return wanted
    batch = recipes.fitting_batch(config.train, run.memory)
    if batch < wanted:
        progress.note(f"{batch} images per rank instead of {wanted}: a rank has {run.memory / 2**30:.1f} GiB of memory")
    return batch


def script(place: Home, cluster: Cluster, digest: str, config: Config, argv: Sequence[str]) -> Run:
    """Start ``argv`` ("python my_script.py ...") on every rank, with the directory that the script lives in."""
    source, command = locate(argv)
    files = {f"{SOURCE}/{name}": path for name, path in source_files(source).items()}
    run = runs.plan(place, cluster, digest, config.launch, "script", command)
    run = run.model_copy(update={"workdir": f"{run.directory}/{SOURCE}"})
    with runs.head_session(place, cluster) as head, progress.step(f"Starting {run.id}"):
        runs.start(place, cluster, head, run, files, {})
    return run


def hello(place: Home, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start the program that proves every rank and measures the allreduce."""
    run = runs.plan(place, cluster, digest, config.launch, "check", [PYTHON, "-m", "orchestrator.trainer.hello"])
    with runs.head_session(place, cluster) as head, progress.step(f"Starting {run.id}"):
        runs.start(place, cluster, head, run, {}, {})
    return run


def locate(argv: Sequence[str]) -> tuple[Path, list[str]]:
    """The directory to send, and the command as it reads from inside it.

    The script is the first argument that ends in .py or is a file here; ``python -m module`` sends this directory.
    """
    if not argv:
        raise ConfigError(["run: nothing to run: `orchestrator run -- python my_script.py`"])
    for position, argument in enumerate(argv):
        if argument == "-m":
            return Path.cwd(), list(argv)
        path = Path(argument)
        if path.is_file() and (position > 0 or not shutil.which(argument)):
            inside = path.name if position else f"./{path.name}"
            return path.resolve().parent, [*argv[:position], inside, *argv[position + 1 :]]
        if path.suffix == ".py":
            raise ConfigError([f"run: {argument}: no such file"])
    raise ConfigError(
        [f"run: no script in `{' '.join(argv)}`: name one, as in `orchestrator run -- python my_script.py`"]
    )


def source_files(directory: Path) -> dict[str, Path]:
    """What is sent of ``directory``, by relative name: no caches, no environments.

    Raises ConfigError where it is too much.
    """
    found: dict[str, Path] = {}
    total = 0
    for path in _walk(directory):
        found[str(path.relative_to(directory))] = path
        total += path.stat().st_size
        if total > MAX_SOURCE:
            limit = MAX_SOURCE >> 20
            raise ConfigError([f"run: {directory} holds more than {limit} MiB: give the script a directory of its own"])
    return found


def _walk(directory: Path) -> list[Path]:
    paths: list[Path] = []
    for entry in sorted(directory.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            paths += _walk(entry) if entry.name not in LEFT_OUT else []
        elif entry.is_file():
            paths.append(entry)
    return paths
