"""Print what `data prepare` and `data stage` did."""

from orchestrator.cli import output
from orchestrator.schema import Prepared, Staged


def prepared(result: Prepared) -> None:
    """Print the shards that were made, and the samples that were left out."""
    images = " and ".join(f"{count:,} {split}" for split, count in result.images.items())
    output.line(f"{images} images in {result.shards} shards, {result.bytes / 1e6:,.1f} MB: {result.directory}")
    output.line(
        f"{result.written} shards were written in {result.seconds:.1f} s; the others exist already and are complete"
    )
    for unreadable in result.unreadable:
        output.line(f"left out: {unreadable}")


def staged(result: Staged) -> None:
    """Print the shards on every node, and how much was copied to each."""
    output.line(f"{result.shards} shards, {result.bytes / 1e6:,.1f} MB, on every node in {result.seconds:.1f} s:")
    for directory in result.directories:
        output.line(f"  {directory}")
    rows = zip(result.hosts, result.copied, result.read, strict=True)
    output.table(
        ("node", "copied now", "from shared storage"),
        [(host, f"{copied / 1e6:,.1f} MB", f"{read / 1e6:,.1f} MB") for host, copied, read in rows],
    )
