"""Run Horovod's examples, unchanged, by `orchestrator run` on two local nodes: ``make horovod-examples``.

The results of all calls become a table, build/horovod-examples.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.horovod_suite import example_data
from tests.horovod_suite.__main__ import ROOT, horovod_source

COMMAND = Path(sys.executable).with_name("orchestrator")
CLUSTER = "horovod-examples"
OUTPUT = ROOT / "build" / "horovod-examples"
TABLE = OUTPUT.with_suffix(".md")
LIST = yaml.safe_load(Path(__file__).with_name("examples.yaml").read_text())
LIMIT = 900  # seconds for an example that ends by itself
LOSS = re.compile(r"loss: ([0-9.]+(?:e[-+]?\d+)?)", re.IGNORECASE)
BY_FRAMEWORK = {"tensorflow": example_data.for_keras, "pytorch": example_data.for_pytorch}


@dataclass(frozen=True)
class Example:
    """A script, its arguments, and the ``seconds`` after which it is stopped (0: it ends by itself)."""

    script: str
    framework: str = "tensorflow"
    arguments: str = ""
    seconds: int = 0


@dataclass(frozen=True)
class Outcome:
    """Outcome of an example: ``result`` in words, and ``works`` if that is the expected end."""

    script: str
    framework: str
    works: bool
    result: str


def main() -> None:
    """Run the selected examples, and write the table of all results; fail if an example does not work."""
    args = _arguments()
    if Path("cluster.yaml").exists():
        sys.exit(f"{Path.cwd()}/cluster.yaml: its cluster would be deployed: start this in another directory")
    source = horovod_source("horovod-examples") / "examples"
    selected = [Example(**entry) for entry in LIST["run"] if args.only in entry["script"]]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    try:
        for framework in dict.fromkeys(example.framework for example in selected):
            _orchestrator("deploy", "--nodes", "2", "--framework", framework, "--no-monitoring").check_returncode()
            for example in (example for example in selected if example.framework == framework):
                _save(_execute(example, source))
    finally:
        if not args.keep:
            _orchestrator("teardown", "--yes", "--discard-runs")
    TABLE.write_text(_table(source))
    failed = [outcome.script for outcome in _outcomes() if not outcome.works]
    sys.exit(f"do not work: {', '.join(failed)}: {TABLE}" if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a script's path")
    parser.add_argument("--keep", action="store_true", help="leave the cluster for the next call")
    return parser.parse_args()


def _words(*words: str) -> list[str]:
    return [str(COMMAND), words[0], "--cluster", CLUSTER, *words[1:]]


def _environment() -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(OUTPUT / "state")}


def _orchestrator(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(_words(*words), env=_environment(), text=True, check=False)


def _execute(example: Example, source: Path) -> Outcome:
    """Run an example in its own directory, with its data."""
    print(example.script, flush=True)
    script = source / example.script
    directory = OUTPUT / "run"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copy(script, directory)
    BY_FRAMEWORK[example.framework](directory)
    settings = ("PYTHONPATH=.", "KERAS_HOME=keras") if example.framework == "tensorflow" else ()
    program = ["python", script.name, *example.arguments.split()]
    words = _words("run", "--", *(("env", *settings) if settings else ()), *program)
    output, code, seconds = _bounded(words, directory, example.seconds)
    (OUTPUT / f"{script.stem}.log").write_text(output)
    return judge(example, output, code, seconds)


def _bounded(words: list[str], directory: Path, seconds: int) -> tuple[str, int, float]:
    """Run a command, and stop its run after ``seconds``; return its output, its exit code, and its duration."""
    started = time.monotonic()
    options: Any = {"cwd": directory, "env": _environment(), "text": True, "errors": "replace"}
    stop = threading.Timer(seconds or LIMIT, _orchestrator, ["stop"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as running:
        stop.start()
        output = running.communicate()[0]
        stop.cancel()
    return output, running.returncode, time.monotonic() - started


def judge(example: Example, output: str, code: int, seconds: float) -> Outcome:
    """Decide whether an example works: it ended with exit code 0, or its loss fell until it was stopped.

    Args:
        example: Example that ran.
        output: Output of the command.
        code: Exit code of the command.
        seconds: Duration.

    Returns:
        The outcome.
    """
    losses = [float(loss) for loss in LOSS.findall(output)]
    course = f"loss fell from {losses[0]:.3g} to {losses[-1]:.3g}" if len(losses) > 1 else ""
    fell = len(losses) > 1 and losses[-1] < losses[0]
    if example.seconds and fell and seconds >= example.seconds:
        return Outcome(example.script, example.framework, True, f"ran {seconds:.0f} s, then was stopped: {course}")
    if code == 0:
        return Outcome(example.script, example.framework, True, f"ran to its end{f': {course}' if fell else ''}")
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return Outcome(example.script, example.framework, False, f"exit code {code}: {' '.join(last)}")


def _save(outcome: Outcome) -> None:
    print(f"  {outcome.result}", flush=True)
    (OUTPUT / f"{Path(outcome.script).stem}.json").write_text(json.dumps(asdict(outcome)))


def _outcomes() -> list[Outcome]:
    """Return the results of this call and of earlier ones, in the order of the list."""
    paths = [OUTPUT / f"{Path(entry['script']).stem}.json" for entry in LIST["run"]]
    return [Outcome(**json.loads(path.read_text())) for path in paths if path.exists()]


def _table(source: Path) -> str:
    lines = ["| script | framework | result |", "|---|---|---|"]
    lines += [f"| `{outcome.script}` | {outcome.framework} | {outcome.result} |" for outcome in _outcomes()]
    folders = ("tensorflow2", "keras", "pytorch", "elastic", "adasum")
    scripts = sorted(str(path.relative_to(source)) for folder in folders for path in (source / folder).rglob("*.*"))
    for script in sorted(set(scripts) - {entry["script"] for entry in LIST["run"]}):
        reason = next((e["reason"] for e in LIST["not_run"] if fnmatchcase(script, e["scripts"])), "not listed")
        lines.append(f"| `{script}` | - | not run: {reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
