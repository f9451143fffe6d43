"""Command line of the benches that look into the training step of one network."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from bench import train_containers
from bench.harness import machine
from bench.train_containers import Place
from bench.train_ours import Work


@contextmanager
def command_line(
    description: str | None, works: Iterable[Work], precisions: Sequence[str]
) -> Iterator[tuple[Work, Place, str | None]]:
    """Read the command line: a network, its sizes, and the image to measure in.

    Args:
        description: Text of --help.
        works: Networks to choose from.
        precisions: Precisions to choose from.

    Yields:
        The network with its sizes, containers on all cores, and the precision, None for the trainer's choice.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    by_name = {work.model: work for work in works}
    parser.add_argument("model", choices=by_name)
    parser.add_argument("--pixels", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=precisions)
    parser.add_argument("--image", help="measure in this image, with the worker side of this working tree in it")
    args = parser.parse_args()
    sizes = {key: value for key, value in (("pixels", args.pixels), ("batch", args.batch)) if value}
    with train_containers.on_all_cores(args.image) as place:
        yield replace(by_name[args.model], **sizes), place, args.precision


def title(work: Work, place: Place, precision: str) -> str:
    """Return network, precision and machine of a measurement."""
    sizes = f"{work.model}, {work.pixels} px, batch {work.batch}, {precision}"
    return f"{sizes}, {len(place.cores)} cores, {machine()}"
