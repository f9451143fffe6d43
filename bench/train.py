"""How fast training is, beside others' on this machine: ``make bench-train`` writes build/training.md.

    make bench-train ARGS='--only resnet50 --only vgg16 --rounds 5'

Each contestant is a process of its own in a container of its own, on the same cores and alone on them; those of a row
follow each other, and every other round in the opposite order. A ratio is the median of the rounds' ratios, and what a
process gives is the median of several measurements, all of them after its first steps. See docs/performance.md.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import train_ours as ours
from bench import train_place
from bench.harness import Row, interleaved, machine, write
from bench.train_ours import EPOCHS, Work
from bench.train_place import Place
from orchestrator.cluster import PYTHON

RESNET50 = Work("resnet50", pixels=128, batch=32, steps=8, classes=1000)
AT_224 = replace(RESNET50, pixels=224, steps=3)
ONE_CORE = replace(RESNET50, steps=6)
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
NEAR = 0.01  # of the parameters that two forms of a network may differ by
MEASURE = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Sitting:
    """Where and how often is measured; ``parameters`` of our networks as far as they were trained."""

    place: Place
    rounds: int
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return len(self.place.cores)

    def compare(self, contestants: MEASURE) -> dict[str, list[float]]:
        return interleaved(contestants, self.rounds)

    def ours(self, work: Work, precision: str | None = None) -> float:
        found = ours.alone(self.place, ours.run(self.place, work, 1, self.threads, precision))
        self.parameters[work.model] = found.parameters
        return ours.rate(found)

    def horovod(self, work: Work, pixels: int | None, keras_3: bool = False) -> float:
        """Images/s of Horovod's example, unchanged, or with so many ``pixels``; its own Keras, or Keras 3."""
        batches = ("--num-warmup-batches", "2", "--num-batches-per-iter", str(work.steps), "--num-iters", "2")
        sized = ["/bench/train_horovod.py", train_place.example(), str(pixels)] if pixels else [train_place.example()]
        legacy = {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": train_place.tf_keras()}
        argv = [PYTHON, *sized, "--no-cuda", "--batch-size", str(work.batch), *batches]
        said = self.place.run(argv, {} if keras_3 else legacy)
        return statistics.median(float(line.split()[2]) for line in said.splitlines() if line.startswith("Iter #"))

    def torch(self, work: Work, precision: str) -> float:
        argv = ["/usr/bin/python3", "/bench/train_torch.py", "--precision", precision, "--rounds", str(EPOCHS - 1)]
        argv += _flags(pixels=work.pixels, batch=work.batch, steps=work.steps, threads=self.threads)
        found = self.place.json(argv, {"PYTHONPATH": train_place.torch()})
        return statistics.median(found["images_per_second"])

    def fit(self, work: Work) -> float:
        argv = [PYTHON, "/bench/train_keras.py", work.model, *_flags(epochs=EPOCHS, channels=work.channels)]
        argv += _flags(pixels=work.pixels, classes=work.classes, batch=work.batch, steps=work.steps)
        found = self.place.json(argv)
        mine, theirs = self.parameters.get(work.model, found["parameters"]), found["parameters"]
        assert abs(mine / theirs - 1) < NEAR, f"{work.model} has {mine} parameters, Keras' {theirs}: another network"
        return statistics.median(found["images_per_second"])


def _flags(**values: int) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def _row(found: dict[str, list[float]], what: str, beside: str, goal: str, unit: str = "images/s") -> Row:
    """``what`` beside ``beside``: medians, and the median of the ratios with all of them."""
    ratios = [one / other for one, other in zip(found[what], found[beside], strict=True)]
    all_of_them = " ".join(f"{ratio:.3f}" for ratio in ratios)
    mine, other = statistics.median(found[what]), statistics.median(found[beside])
    ratio = f"{statistics.median(ratios):.3f}"
    return Row(what, goal, f"{_figure(mine)} {unit}", ratio, f"{beside}, {_figure(other)} {unit} ({all_of_them})")


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def resnet50(sitting: Sitting) -> list[Row]:
    """One process: ours in each precision that is another one, Horovod's example, the best PyTorch."""
    kinds = _distinct(sitting)
    found = sitting.compare(
        {
            **{f"ResNet-50, 128 px, {kind}": lambda kind=kind: sitting.ours(RESNET50, kinds[kind]) for kind in kinds},  # type: ignore[misc]
            EXAMPLE: lambda: sitting.horovod(RESNET50, RESNET50.pixels),
            EXAMPLE_3: lambda: sitting.horovod(RESNET50, RESNET50.pixels, keras_3=True),
            PYTORCH: lambda: sitting.torch(RESNET50, "bfloat16"),
        }
    )
    at_224 = sitting.compare({OURS_224: lambda: sitting.ours(AT_224), UNCHANGED: lambda: sitting.horovod(AT_224, None)})
    rows = [_row(at_224, OURS_224, UNCHANGED, "≥ 2.2")]
    for kind in kinds:
        goals = {EXAMPLE: "≥ 2.2", EXAMPLE_3: "≥ 2.2", PYTORCH: "≥ 1.2"} if kind.startswith("as chosen") else {}
        what = f"ResNet-50, 128 px, {kind}"
        rows += [_row(found, what, beside, goals.get(beside, "")) for beside in (EXAMPLE, EXAMPLE_3, PYTORCH)]
    return rows


OURS_224, UNCHANGED = "ResNet-50, 224 px, as chosen", "Horovod's example, unchanged, tf_keras, float32"
EXAMPLE = "Horovod's example at 128 px, tf_keras, float32"
EXAMPLE_3 = "Horovod's example at 128 px, Keras 3, float32"
PYTORCH = f"{train_place.TORCH.replace('==', ' ')}, bfloat16, channels last"


def _distinct(sitting: Sitting) -> dict[str, str | None]:
    """What our runs are called, and the precision asked for: as chosen, and those that are not the one chosen."""
    chosen = ours.precision(sitting.place, RESNET50)
    others = [precision for precision in ("float32", "bfloat16") if precision != chosen]
    return {f"as chosen ({chosen})": None, **dict(zip(others, others, strict=True))}


def models(sitting: Sitting, wanted: Sequence[str] = ()) -> list[Row]:
    """Every other network beside `model.fit`, in the precision that is chosen and in float32 where that is another."""
    rows = []
    for work in (work for work in MODELS if not wanted or work.model in wanted):
        what, fit = f"{work.model}, {work.pixels} px", "model.fit"
        found = sitting.compare({what: lambda: sitting.ours(work), fit: lambda: sitting.fit(work)})  # noqa: B023
        rows.append(_row(found, what, fit, "≥ 1.5"))
    return rows


def ranks(sitting: Sitting) -> list[Row]:
    """Two ranks of one core each, beside two processes that know nothing of each other."""
    place = replace(sitting.place, cores=sitting.place.cores[:2])
    assert len(place.cores) == 2, "two ranks need two cores"

    def launched(defaults: bool) -> float:
        run = ours.run(place, ONE_CORE, 2, 1)
        return ours.rate(ours.together(place, run, ours.as_horovod_would(run) if defaults else None)) / 2

    def apart() -> float:
        found = ours.apart(place, [ours.run(place, ONE_CORE, 1, 1) for _ in range(2)])
        return statistics.mean(map(ours.rate, found))

    we, horovod, alone = (
        "2 ranks, 1 core each, ResNet-50, per rank",
        "the same, Horovod's defaults",
        "2 processes apart",
    )
    found = sitting.compare({we: lambda: launched(False), horovod: lambda: launched(True), alone: apart})
    return [_row(found, we, alone, "≥ 0.93"), _row(found, horovod, alone, "")]


def first_step(sitting: Sitting) -> list[Row]:
    """The way to the first step, and what is traced after it."""
    place, work, parts = sitting.place, replace(RESNET50, steps=3), list[dict[str, float]]()

    def least() -> float:
        words = f"{work.model} {work.pixels} {work.channels} {work.classes} {work.batch}"
        parts.append(place.json(["sh", "-c", f"exec {PYTHON} /bench/train_first_step.py {words} $(date +%s.%N)"]))
        return parts[-1]["import"] + parts[-1]["trace"]

    what, beside = "exec to the end of the first step, ResNet-50", "TensorFlow's import and one trace"
    run = lambda: ours.run(place, work, 1, sitting.threads, epochs=1)  # noqa: E731
    found = sitting.compare({what: lambda: ours.first_step(place, run()), beside: least})
    with_all = "the plainest program: import, network, trace, execution"
    found[with_all] = [sum(part.values()) for part in parts]
    rows = [_row(found, what, beside, "< 1.3", "s"), _row(found, what, with_all, "", "s")]
    medians = {name: statistics.median(part[name] for part in parts) for name in parts[0]}
    split = Row(
        "of that program", "", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in medians.items()), "", ""
    )
    return [*rows, split, _traces(sitting)]


def _traces(sitting: Sitting) -> Row:
    """How often is traced in a short run and in a long one of the same network."""
    place, counted = sitting.place, {}
    for epochs in (1, EPOCHS):
        run = ours.run(place, replace(RESNET50, pixels=32, steps=2), 1, sitting.threads, epochs=epochs)
        counted[epochs] = place.json([PYTHON, "/bench/train_traces.py", f"{run.directory}"])
    short, long = (sum(counted[epochs].values()) for epochs in (1, EPOCHS))
    more = [f"{name} {count}" for name, count in counted[EPOCHS].items() if count != counted[1].get(name, 0)]
    beside = f"1 epoch, {short}" + (f"; more of: {', '.join(more)}" if more else "")
    return Row(f"functions traced in {EPOCHS} epochs", "1", str(long), f"{long / short:.2f}", beside)


def inputs(_: Sitting) -> list[Row]:
    """What ``python -m bench.input`` says, where there is one."""
    try:
        from bench import input as of_input  # type: ignore[attr-defined]  # noqa: PLC0415
    except ImportError:
        return [Row("input pipeline", "", "not measured", "", "there is no bench/input.py")]
    rows: list[Row] = of_input.rows()
    return rows


ROWS = {"resnet50": resnet50, "models": models, "ranks": ranks, "first-step": first_step, "input": inputs}


def _chosen(only: Sequence[str]) -> dict[str, Callable[[Sitting], list[Row]]]:
    """What of the rows is asked for, by name."""
    networks = [work.model for work in MODELS if work.model in only]
    chosen = {name: measure for name, measure in ROWS.items() if not only or name in only}
    return chosen | ({"networks": lambda sitting: models(sitting, networks)} if networks else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*ROWS, *(work.model for work in MODELS)]
    parser.add_argument("--only", action="append", default=[], choices=names, help="may be given several times")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", help="measure in this image, with the worker side of this working tree in it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as shared:
        cores = tuple(sorted(os.sched_getaffinity(0)))
        place = Place(args.image or train_place.image(), cores, Path(shared), own_sources=bool(args.image))
        rows: list[Row] = []
        for measure in _chosen(args.only).values():
            rows += measure(Sitting(place, args.rounds))
            write("training", rows, args.rounds, machine())  # what follows takes minutes more


if __name__ == "__main__":
    main()
