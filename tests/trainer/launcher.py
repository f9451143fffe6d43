"""Start runs of the trainer by horovodrun in this container, each rank inside its wrapper."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.launch_layout import Layout
from orchestrator.schema import Results
from tests import samples

HOROVODRUN = Path(sys.executable).with_name("horovodrun")


def launch(
    directory: Path, program: list[str], ranks: int = 2, controller: str = "gloo", options: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run ``program`` on ``ranks`` ranks; the launcher's output becomes the run's log."""
    (directory / "ranks").mkdir(parents=True, exist_ok=True)
    (directory / "program.json").write_text(json.dumps(program))
    hosts = ["localhost"] * ranks
    is_trainer = (directory / "config.json").exists()
    layout = Layout({"localhost": ranks}, hosts, "lo", 1, 120.0, {}, trainer=is_trainer)
    (directory / "launch.json").write_text(layout.text())
    launcher = [str(HOROVODRUN), f"--{controller}", "-np", str(ranks), "-H", f"localhost:{ranks}", "--disable-cache"]
    command = [
        *launcher,
        *options,
        sys.executable,
        "-m",
        "orchestrator.trainer.supervision.rank_wrapper",
        str(directory),
    ]
    environment = {**os.environ, "ORCHESTRATOR_RUN": directory.name, "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}
    output = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    (directory / "log").write_text(output.stdout)
    return output


def train(
    directory: Path, ranks: int, options: Any = (), controller: str = "gloo", **changes: Any
) -> "subprocess.CompletedProcess[str]":
    """Train resnet20 on 70 images of MNIST and 9 held out; ``options`` are horovodrun's."""
    data = samples.mnist(directory / "data", {"train": 70, "t10k": 9})
    values = {"data": str(data), "batch_size": 16, "learning_rate": 0.01, **changes}
    samples.train_config(**values).write(directory / "config.json")
    engine = changes.get("engine", "ours")
    module = "train" if engine == "ours" else f"engines.{engine.replace('-', '_')}"
    program = [sys.executable, "-m", f"orchestrator.trainer.{module}", str(directory)]
    return launch(directory, program, ranks, controller, options)


def results(directory: Path) -> Results:
    return Results.model_validate_json((directory / "results.json").read_text())


def printed_lines(directory: Path, program: str, ranks: int, *words: str, controller: str = "gloo") -> set[str]:
    """Return the output of ranks that all succeed."""
    path = directory / "program.py"
    path.write_text(program)
    output = launch(directory / "run", [sys.executable, str(path), *words], ranks, controller)
    assert output.returncode == 0, output.stdout
    return {line.partition(">:")[2] for line in output.stdout.splitlines() if ">:rank " in line}
