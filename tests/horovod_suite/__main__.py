"""Run Horovod's own tests inside the image: ``make horovod-suite HOROVOD_SOURCE=DIR`` writes build/horovod-suite.md."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from orchestrator.config import Config, Framework
from orchestrator.docker import build, context
from orchestrator.docker.engine import Engine
from tests.horovod_suite import container, plan, reasons, results, table
from tests.horovod_suite.container import Suite
from tests.horovod_suite.plan import Run

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "horovod-suite"
TABLE = OUTPUT.with_suffix(".md")
UPSTREAM = "https://github.com/horovod/horovod, tag v0.28.1"


def main() -> None:
    """Run the selected tests, and write the table of all results; fail if a failure has no known reason."""
    args = _arguments()
    source = horovod_source("horovod-suite")
    runs, engine = list(plan.runs(source)), Engine()
    selected = [run for run in runs if args.only in run.name and not reasons.excluded(run.file)]
    frameworks = dict.fromkeys(run.framework for run in selected)
    images = {framework: args.image or _image(engine, framework) for framework in frameworks}
    for run in selected:
        _execute(engine, Suite(source, _packages(), images, OUTPUT), run)
    results = table.load_results(runs, OUTPUT)
    TABLE.write_text(table.text(runs, results))
    unknown = sum(len(each.unknown()) for each in results)
    sys.exit(f"{unknown} failures have no known reason: {TABLE}" if unknown else 0)


def horovod_source(target: str) -> Path:
    """Return the directory of Horovod's sources that HOROVOD_SOURCE names; exit with make's target if it has none."""
    source = Path(os.environ.get("HOROVOD_SOURCE") or "-").resolve()
    if not (source / "test" / "parallel").is_dir():
        sys.exit(
            f"HOROVOD_SOURCE={os.environ.get('HOROVOD_SOURCE', '')}: no directory with test/ and examples/ of Horovod; "
            f"get its sources ({UPSTREAM}) and run `make {target} HOROVOD_SOURCE=DIR`"
        )
    return source


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a run's name, as in the table")
    parser.add_argument("--image", help="image to test, that of the sources here by default")
    return parser.parse_args()


def _image(engine: Engine, framework: Framework) -> str:
    """Return the tag of the node image, which is built if it is missing."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    variant = context.variant(Config(framework=framework))
    return build.ensure(engine, "node", variant, OUTPUT / f"image-{framework}.log")


def _packages() -> Path:
    """Install the tests' imports with the image's Python, outside of the image."""
    packages = OUTPUT / "packages"
    if not packages.exists():
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", "3.11"]
        path = str(ROOT / "requirements" / "horovod-suite.txt")
        pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(packages), "--requirement", path]
        subprocess.run(pip, check=True)
    return packages


def _execute(engine: Engine, suite: Suite, run: Run) -> None:
    print(run.name, flush=True)
    shutil.rmtree(suite.output / run.name, ignore_errors=True)
    merged = container.execute(engine, suite, run)
    results.save(suite.output / f"{run.name}.json", merged)
    outcomes = [result.outcome for result in merged.values()]
    print("  " + ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in results.WORST_FIRST), flush=True)


if __name__ == "__main__":
    main()
