"""Profile a training step by operation: ``python -m bench.profile resnet50`` writes build/profile.md.

python -m bench.profile mobilenet_v2 --pixels 224 --batch 16 --precision bfloat16
"""

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import train_ours as ours
from bench import train_place
from bench.harness import OUTPUT, machine
from bench.train_place import Place
from bench.train_rows import MODELS, RESNET50
from orchestrator.cluster import PYTHON
from orchestrator.runs import launch

SHOWN = 20
KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "1"}  # as the trainer sets it; here TensorFlow is imported before the trainer


def page(found: dict[str, Any], title: str) -> str:
    """Return a table of the most expensive operations, and of the rest of the step."""
    step = 1000 * found["seconds"]
    spent = sorted(((*figures, name) for name, figures in found["operations"].items()), reverse=True)
    lines = [
        f"{title}: {step:.0f} ms per step, under the profiler",
        "",
        "| ms | share | calls | operation |",
        "|---|---|---|---|",
    ]
    lines += [f"| {ms:.1f} | {ms / step:.1%} | {calls:.0f} | {name} |" for ms, calls, name in spent[:SHOWN]]
    others = sum(ms for ms, _, _ in spent[SHOWN:])
    left = step - sum(ms for ms, _, _ in spent)
    lines += [f"| {others:.1f} | {others / step:.1%} | | {max(0, len(spent) - SHOWN)} other kinds |"]
    lines += [f"| {left:.1f} | {left / step:.1%} | | no operation: input, Python, the profiler |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {work.model: work for work in (RESNET50, *MODELS)}
    parser.add_argument("model", choices=known)
    parser.add_argument("--pixels", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--image", help="profile in this image, with the worker side of this working tree in it")
    args = parser.parse_args()
    given = {key: value for key, value in (("pixels", args.pixels), ("batch", args.batch)) if value}
    work = replace(known[args.model], **given)
    with tempfile.TemporaryDirectory() as shared:
        cores = tuple(sorted(os.sched_getaffinity(0)))
        place = Place(args.image or train_place.image(), cores, Path(shared), own_sources=bool(args.image))
        run = ours.run(place, work, 1, len(cores), args.precision, epochs=2)
        environment = {**launch.environment(run), **KERNELS}
        found = place.json([PYTHON, "-m", "bench.train_profile", run.directory], environment)
        precision = ours.results(place, run).config.precision
    title = f"{work.model}, {work.pixels} px, batch {work.batch}, {precision}, {len(cores)} cores, {machine()}"
    written = OUTPUT / "profile.md"
    written.parent.mkdir(exist_ok=True)
    written.write_text(page(found, title))
    print(written.read_text())


if __name__ == "__main__":
    main()
