"""Data sets as shards: made once, and copied to every node."""

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.schema.file import File

Size = Annotated[int, Field(ge=0, lt=1 << 48)]
LOCAL_DATA = "/var/lib/orchestrator/data"  # on every node's own disk: what was staged there


class PrepareConfig(File):
    """What to make TFRecord shards of, and where; ``shards`` of a split ("train", "val") where none are made yet.

    Where ``source`` holds shards itself, ``target`` is the same directory: they are read through and described.
    """

    source: str
    target: str
    shards: dict[str, int]
    skip_unreadable: bool
    threads: int


class Shard(File):
    """A TFRecord file that is whole: ``lengths`` are the bytes of each record's content, in order.

    ``labels`` are its least and its greatest; ``unreadable`` are the images that were left out.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
    bytes: Size
    sha256: str
    lengths: list[Size]
    labels: tuple[int, int] | None
    unreadable: list[str] = Field([])


class Manifest(File):
    """All shards of a data set, by split. Written last: where it is, they are whole.

    A label less ``label_base`` is the number of the class, from 0 on.
    """

    version: Literal[1] = 1
    label_base: Literal[0, 1]
    shards: dict[str, list[Shard]]


class Prepared(File):
    """What ``orchestrator data prepare`` gave: images by split, and of how many shards ``made`` were made now."""

    directory: str
    images: dict[str, int]
    shards: int
    made: int
    bytes: int
    unreadable: list[str]
    seconds: float


class StageConfig(File):
    """Which directories of prepared shards to copy to every node's own disk.

    ``head_apart``: the shared storage is a disk of rank 0's node, which therefore copies for itself.
    """

    sources: list[str]
    head_apart: bool
    threads: int


class Staged(File):
    """What ``orchestrator data stage`` gave: rank r, on ``hosts[r]``, wrote ``copied[r]`` bytes.

    Of these it ``read[r]`` from the shared storage itself; the others gave it the rest.
    """

    directories: list[str]
    hosts: list[str]
    shards: int
    bytes: int
    read: list[int]
    copied: list[int]
    seconds: float
