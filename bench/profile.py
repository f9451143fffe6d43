"""Profile a training step by operation: ``python -m bench.profile resnet50`` writes build/profile.md.

python -m bench.profile mobilenet_v2 --pixels 224 --batch 16 --precision bfloat16
"""

from typing import Any

from bench import one_network
from bench import train_ours as ours
from bench.harness import write_page
from bench.train_comparisons import MODELS
from bench.train_ours import RESNET50
from orchestrator.cluster import PYTHON
from orchestrator.runs import run_record

SHOWN = 20
KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "1"}  # as the trainer sets it; here TensorFlow is imported before the trainer


def page(measured: dict[str, Any], title: str) -> str:
    """Return a table of the most expensive operations, and of the rest of the step."""
    step = 1000 * measured["seconds"]
    spent = sorted(((*figures, name) for name, figures in measured["operations"].items()), reverse=True)
    lines = [
        f"{title}: {step:.0f} ms per step, under the profiler",
        "",
        "| ms | share | calls | operation |",
        "|---|---|---|---|",
    ]
    lines += [f"| {ms:.1f} | {ms / step:.1%} | {calls:.0f} | {name} |" for ms, calls, name in spent[:SHOWN]]
    others = sum(ms for ms, _, _ in spent[SHOWN:])
    rest = step - sum(ms for ms, _, _ in spent)
    lines += [f"| {others:.1f} | {others / step:.1%} | | {max(0, len(spent) - SHOWN)} other kinds |"]
    lines += [f"| {rest:.1f} | {rest / step:.1%} | | no operation: input, Python, the profiler |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    with one_network.command_line(__doc__, (RESNET50, *MODELS), ("float32", "bfloat16", "float16")) as (
        work,
        place,
        wanted,
    ):
        run = ours.run(place, work, 1, len(place.cores), wanted, epochs=2)
        environment = {**run_record.environment(run), **KERNELS}
        measured = place.json([PYTHON, "-m", "bench.train_profile", run.directory], environment)
        precision = ours.results(place, run).config.precision
    write_page("profile", page(measured, one_network.title(work, place, precision)))


if __name__ == "__main__":
    main()
