"""The rows of ``bench.train``: the contestants of each comparison."""

import json
import os
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bench import train_ours as ours
from bench import train_ranks
from bench.harness import Row, paired
from bench.train_contestants import Contestants, Sitting
from bench.train_ours import EPOCHS, RESNET50, Work
from orchestrator.cluster import PYTHON, SHARED

AT_224 = replace(RESNET50, pixels=224, steps=3)
SMOKE_MODELS = ("dense",)  # a table; images are in the other rows
MODELS = (
    Work("lenet", 32, 32, 400, 10),
    Work("dense", 1, 32, 400, 3, channels=6, table=True),
    Work("resnet20", 32, 32, 40, 10),
    Work("alexnet", 128, 32, 10, 1000),
    Work("googlenet", 128, 32, 6, 1000),
    Work("mobilenet_v2", 128, 32, 6, 1000),
    Work("inception_v3", 128, 32, 5, 1000),
    Work("vgg16", 128, 32, 3, 1000),
    Work("resnet101", 128, 32, 4, 1000),
)


def resnet50(sitting: Sitting) -> list[Row]:
    """Compare, in one process: the trainer as chosen and in float32, Horovod's example, and the fastest loops."""
    return _rivals(sitting, RESNET50, _examples(sitting))


def _examples(sitting: Sitting) -> Contestants:
    work = sitting.work(RESNET50)
    return {
        EXAMPLE: lambda: sitting.horovod(work, work.pixels),
        EXAMPLE_3: lambda: sitting.horovod(work, work.pixels, keras_3=True),
    }


def _rivals(sitting: Sitting, network: Work, others: Contestants) -> list[Row]:
    """Compare the trainer with ``others`` and with loops in the chosen precision and in float32."""
    work = sitting.work(network)
    chosen = sitting.precision(work)
    kinds = _distinct(chosen)
    names = {f"{work.model}, {work.pixels} px, {kind}": precision for kind, precision in kinds.items()}
    own: Contestants = {name: partial(sitting.ours, work, precision) for name, precision in names.items()}
    loops = _loops(sitting, work, chosen)
    measured = sitting.compare({**own, **others, **loops})
    goals = {**dict.fromkeys(others, GOAL_EXAMPLE), **dict.fromkeys(loops, GOAL_LOOP)}
    first, *further = own
    rows = [sitting.paired(measured, first, reference, goal) for reference, goal in goals.items()]
    return rows + [
        sitting.paired(measured, name, reference) for name in further for reference in goals if "float32" in reference
    ]


def _loops(sitting: Sitting, work: Work, chosen: str) -> Contestants:
    """Return the plainest fast programs in the chosen precision, the two of TensorFlow in float32 too."""
    precisions = dict.fromkeys((chosen, "float32"))
    loops: Contestants = {
        f"a loop, {keras}, {precision}": partial(sitting.loop, work, keras, precision)
        for precision in precisions
        for keras in KERAS
    }
    if work.model == RESNET50.model:
        loops[f"{PYTORCH}, {chosen}"] = lambda: sitting.torch(work, chosen)
        loops[f"{PYTORCH}, torch.compile, {chosen}"] = lambda: sitting.torch(work, chosen, compiled=True)
    return loops


def unchanged(sitting: Sitting) -> list[Row]:
    """Compare with Horovod's unchanged example, at its 224 pixels."""
    work = replace(sitting.work(AT_224), pixels=AT_224.pixels)
    measured = sitting.compare({OURS_224: lambda: sitting.ours(work), UNCHANGED: lambda: sitting.horovod(work, None)})
    return [sitting.paired(measured, OURS_224, UNCHANGED, GOAL_EXAMPLE)]


GOAL_EXAMPLE, GOAL_FIT, GOAL_LOOP = "≥ 2.2", "≥ 1.5", "≥ 1.15"
OURS_224, UNCHANGED = "resnet50, 224 px, as chosen", "Horovod's example, unchanged, tf_keras, float32"
EXAMPLE = "Horovod's example at this size, tf_keras, float32"
EXAMPLE_3 = "Horovod's example at this size, Keras 3, float32"
PYTORCH = "PyTorch, channels last"
KERAS = ("keras", "tf_keras")


def _distinct(chosen: str) -> dict[str, str | None]:
    """Return the precision of the trainer's runs by name: as chosen, and float32 if another was chosen."""
    return {f"as chosen ({chosen})": None, **({} if chosen == "float32" else {"float32": "float32"})}


def models(sitting: Sitting, wanted: Sequence[str] = ()) -> list[Row]:
    """Compare every other network with `model.fit` and with loops, in the precision that is chosen."""
    networks = SMOKE_MODELS if sitting.smoke and not wanted else wanted
    return [row for work in MODELS if not networks or work.model in networks for row in _model(sitting, work)]


def _model(sitting: Sitting, network: Work) -> list[Row]:
    work = sitting.work(network)
    own = f"{work.model}, {work.pixels} px"
    chosen = sitting.precision(work)
    loops: Contestants = {f"a loop, {keras}, {chosen}": partial(sitting.loop, work, keras, chosen) for keras in KERAS}
    measured = sitting.compare({own: lambda: sitting.ours(work), FIT: lambda: sitting.fit(work), **loops})
    goal = GOAL_LOOP if network.model == "resnet101" else "≥ 1"
    return [
        sitting.paired(measured, own, FIT, GOAL_FIT),
        *(sitting.paired(measured, own, loop, goal) for loop in loops),
    ]


FIT = "model.fit"


def first_step(sitting: Sitting) -> list[Row]:
    """Measure the time to the first step, on a new node and later, and count the functions traced after it."""
    place, work = sitting.place, replace(RESNET50, steps=3)  # a smaller first step would not be reported by itself
    parts, later = list[dict[str, float]](), list[float]()

    def least() -> float:
        words = f"{work.model} {work.pixels} {work.channels} {work.classes} {work.batch}"
        parts.append(place.json(["sh", "-c", f"exec {PYTHON} -m bench.train_first_step {words} $(date +%s.%N)"]))
        return parts[-1]["import"] + parts[-1]["trace"]

    def whole() -> float:
        runs = [ours.run(place, work, 1, sitting.threads, epochs=1) for _ in range(2)]
        first, second = ours.first_steps(place, runs)
        later.append(second)
        return first

    reference = "TensorFlow's import and one trace"
    measured = sitting.compare({FIRST_RUN: whole, reference: least})
    if sitting.missing:
        return [sitting.paired(measured, FIRST_RUN, reference), _traces(sitting)]
    measured |= {LATER_RUN: later, PLAINEST: [sum(part.values()) for part in parts]}
    medians = {name: statistics.median(part[name] for part in parts) for name in parts[0]}
    split = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in medians.items())
    compared = [(LATER_RUN, PLAINEST, "≤ 0.9"), (LATER_RUN, FIRST_RUN, "≤ 0.7"), (FIRST_RUN, PLAINEST, "")]
    rows = [paired(measured, *names, "s") for names in [*compared, (LATER_RUN, reference, "")]]
    return [*rows, Row(PLAINEST, "", split, "", ""), _traces(sitting)]


FIRST_RUN = "exec to the end of the first step, ResNet-50, first run on a node"
LATER_RUN = "the same, second run on the node"
PLAINEST = "the plainest program that does a step"


def _traces(sitting: Sitting) -> Row:
    """Compare the number of traced functions in a short run and in a long run of the same network."""
    place, counted = sitting.place, {}
    for epochs in (1, EPOCHS):
        run = ours.run(place, replace(sitting.work(RESNET50), pixels=32, steps=2), 1, sitting.threads, epochs=epochs)
        counted[epochs] = place.json([PYTHON, "-m", "bench.train_traces", run.directory])
    short, long = (sum(counted[epochs].values()) for epochs in (1, EPOCHS))
    more = [f"{name} {count}" for name, count in counted[EPOCHS].items() if count != counted[1].get(name, 0)]
    reference = f"1 epoch, {short}" + (f"; more of: {', '.join(more)}" if more else "")
    return Row(f"functions traced in {EPOCHS} epochs", "1", str(long), f"{long / short:.2f}", reference)


def inputs(sitting: Sitting) -> list[Row]:
    """Run `bench.input` on the class folders in $BENCH_IMAGENET, on one core."""
    source = os.environ.get("BENCH_IMAGENET")
    if source is None:
        return [Row("input pipeline", "≥ 1", "not measured", "", "BENCH_IMAGENET names no class folders of JPEGs")]
    place = sitting.place
    shutil.copytree(source, place.shared / "imagenet", dirs_exist_ok=True)
    output = place.run([PYTHON, "-m", "bench.input", f"{SHARED}/imagenet", "--rounds", str(sitting.rounds)])
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [_input(row) for row in rows]


def _input(row: dict[str, Any]) -> Row:
    if "ratio" in row:
        rate = f"{row['images_per_cpu_second']:.0f} images per CPU second"
        return Row(f"{row['what']}, {row['size']} px", "≥ 1", rate, f"{row['ratio']:.2f}", "tf.data decoding alone")
    if "after" in row:
        return Row(row["what"], "no growth", f"{row['after']:.0f} MiB", f"{row['after'] / row['before']:.2f}", "before")
    return Row(row["what"], "", f"{row['stored']:.0f} stored", "", f"{row['to the device']} to the device")


ROWS = {
    "resnet50": resnet50,
    "unchanged": unchanged,
    "models": models,
    "ranks": train_ranks.ranks,
    "half-cores": train_ranks.half_cores,
    "first-step": first_step,
    "input": inputs,
}
