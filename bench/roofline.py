"""Compare a training step with the least possible one: ``python -m bench.roofline resnet50`` writes build/roofline.md.

The least possible step is that of this machine's fastest implementation of every convolution, each timed by itself, and
of the bytes that the rest must move at least at the measured bandwidth, one after the other. Convolutions whose data
comes from memory are slower: the page has both sums, since in a step some data does. The trainer's own step is measured
before and after them.
"""

import statistics
from collections.abc import Mapping
from typing import Any

from bench import one_network
from bench import train_ours as ours
from bench.harness import write_page
from bench.train_comparisons import MODELS
from bench.train_containers import Place
from bench.train_ours import RESNET50, Work
from orchestrator.cluster import PYTHON

PRODUCTS = ("forward", "inputs", "weights")


def least(measured: Mapping[str, Any], times: str = "ms") -> dict[str, float]:
    """Return the milliseconds of each part of the least possible step; ``times`` is the key of convolutions' times."""
    convolutions = measured["convolutions"]
    parts = {
        product: sum(row["count"] * min(row[times][product].values()) for row in convolutions if product in row[times])
        for product in PRODUCTS
    }
    return parts | {"rest": 1000 * measured["bytes"] / measured["bandwidth"]}


def page(measured: Mapping[str, Any], title: str, steps: list[float]) -> str:
    """Return the page: the parts of the least possible step, and every convolution.

    Args:
        measured: Results of ``bench.train_roofline``.
        title: Network, precision and machine.
        steps: Milliseconds of the trainer's steps.

    Returns:
        Markdown.
    """
    parts, slower, step = least(measured), least(measured, "from_memory_ms"), statistics.median(steps)
    whole, most = sum(parts.values()), sum(slower.values())
    gflop = {p: sum(r["count"] * r["gflop"] for r in measured["convolutions"] if p in r["ms"]) for p in PRODUCTS}
    lines = [
        f"{title}: {whole:.0f} ms at the least, ours {step:.0f} ms: {whole / step:.0%}",
        f"(with all data of convolutions from memory {most:.0f} ms: {most / step:.0%})",
        "",
        "| part | ms | | from memory, ms |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| convolutions, {p} | {parts[p]:.0f} | {gflop[p] / parts[p] * 1000:.0f} GFLOP/s | {slower[p]:.0f} |"
        for p in PRODUCTS
    ]
    rate = f"{measured['bytes'] / 2**20:.0f} MiB at {measured['bandwidth'] / 1e9:.1f} GB/s"
    lines += [f"| everything else | {parts['rest']:.0f} | {rate} | |", ""]
    lines += ["| convolution | times | forward, ms | to its inputs, ms | to its weights, ms |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *map(_line, measured["convolutions"])]) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    size, grid = f"{row['height']}x{row['width']}", f"{row['rows']}x{row['columns']}"
    stride = f", stride {row['stride']}" if row["stride"] > 1 else ""
    cells = [", ".join(f"{name} {ms:.2f}" for name, ms in row["ms"].get(product, {}).items()) for product in PRODUCTS]
    channels = f"{row['channels']} to {row['filters']}" if row["filters"] > 1 else f"{row['channels']} depthwise"
    convolution = f"{size}, {channels}, {grid}{stride}"
    return f"| {convolution} | {row['count']} | {' | '.join(cells)} |"


def _step(place: Place, work: Work, precision: str | None) -> tuple[float, str]:
    """Return the milliseconds of the trainer's step, and its precision."""
    results = ours.train_on_one_rank(place, ours.run(place, work, 1, len(place.cores), precision))
    return 1000 * work.batch / ours.rate(results), results.config.precision


def main() -> None:
    networks = [work for work in (RESNET50, *MODELS) if not work.table]
    with one_network.command_line(__doc__, networks, ("float32", "bfloat16")) as (work, place, wanted):
        before, precision = _step(place, work, wanted)
        argv = [PYTHON, "-m", "bench.train_roofline", work.model]
        argv += map(str, (work.pixels, work.batch, precision, len(place.cores)))
        measured = place.json(argv, {"TF_ENABLE_ONEDNN_OPTS": "1"})
        after, _ = _step(place, work, wanted)
    write_page("roofline", page(measured, one_network.title(work, place, precision), [before, after]))


if __name__ == "__main__":
    main()
