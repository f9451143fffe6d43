"""Compare the speed of training with that of other programs on this machine: ``make bench-train`` writes
build/training.md.

    make bench-train ARGS='--only resnet50 --only vgg16 --rounds 5'

Each contestant is its own process in its own container, on the same cores and alone on them; those of a row follow each
other, in the opposite order every other round. A ratio is the median of the rounds' ratios; a process reports the
median of several measurements, all after its first steps. See docs/performance.md.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from bench import train_containers
from bench.harness import Row, machine, write
from bench.train_comparisons import MODELS, ROWS, models
from bench.train_contestants import Sitting


def _select(only: Sequence[str], smoke: bool) -> dict[str, Callable[[Sitting], list[Row]]]:
    """Select the comparisons by name: "models" is one of each network, but a single one in a smoke test."""
    every = not smoke and (not only or "models" in only)
    selected: dict[str, Callable[[Sitting], list[Row]]] = {
        name: measure
        for name, measure in ROWS.items()
        if (not only or name in only) and not (every and name == "models")
    }
    networks = [work.model for work in MODELS if every or work.model in only]
    return selected | {network: partial(models, wanted=[network]) for network in networks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*ROWS, *(work.model for work in MODELS)]
    parser.add_argument("--only", action="append", default=[], choices=names, help="may be given several times")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", help="measure in this image, with the worker side of this working tree in it")
    parser.add_argument("--smoke", action="store_true", help="see that every row runs: a few steps of small images")
    args = parser.parse_args()
    rounds = 1 if args.smoke else args.rounds
    with train_containers.on_all_cores(args.image) as place:
        rows: list[Row] = []
        for measure in _select(args.only, args.smoke).values():
            rows += measure(Sitting(place, rounds, args.smoke))
            write("training", rows, rounds, machine(), cores=len(place.cores))  # the rest takes minutes more


if __name__ == "__main__":
    main()
