"""Models of data sets that are prepared as shards once and copied to every node."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestrator.schema.file_model import File

Size = Annotated[int, Field(ge=0, lt=1 << 48)]
LOCAL_DATA = "/var/lib/orchestrator/data"  # staged data, on every node's own disk
MANIFEST = "manifest.json"  # in a directory of prepared shards


class PrepareConfig(File):
    """Source and target of data preparation. ``shards`` counts the shards per split ("train", "val") still to be made.

    If ``source`` already holds shards, ``target`` is the same directory: the shards are read through and described.
    """

    source: str
    target: str
    shards: dict[str, int]
    skip_unreadable: bool
    threads: int


class Shard(File):
    """Complete TFRecord file. ``lengths`` are the bytes of each record's content, in order.

    ``labels`` are the smallest and the largest label; ``unreadable`` names the images that were left out.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
    bytes: Size
    sha256: str
    lengths: list[Size]
    labels: tuple[int, int] | None
    unreadable: list[str] = Field([])


class Manifest(File):
    """All shards of a data set, by split. It is written last: if it exists, the shards are complete.

    A label minus ``label_base`` is the number of the class, starting at 0.
    """

    version: Literal[1] = 1
    label_base: Literal[0, 1]
    shards: dict[str, list[Shard]]

    @property
    def all_shards(self) -> list[Shard]:
        """Shards of every split."""
        return [shard for shards in self.shards.values() for shard in shards]

    @property
    def greatest_label(self) -> int:
        """Largest label of all shards; 0 if none has records."""
        return max((shard.labels[1] for shard in self.all_shards if shard.labels), default=0)


class Prepared(File):
    """Result of ``orchestrator data prepare``: images by split, ``shards``, and those ``written`` by this run."""

    directory: str
    images: dict[str, int]
    shards: int
    written: int
    bytes: int
    unreadable: list[str]
    seconds: float


class StageConfig(File):
    """Directories of prepared shards to copy to every node's own disk.

    ``head_apart``: the shared storage is a disk of rank 0's node, which therefore copies the shards for itself.
    """

    sources: list[str]
    head_apart: bool
    threads: int


class Staged(File):
    """Result of ``orchestrator data stage``: rank r, on ``hosts[r]``, wrote ``copied[r]`` bytes.

    It read ``read[r]`` of these bytes from the shared storage and received the rest from the other ranks.
    """

    directories: list[str]
    hosts: list[str]
    shards: int
    bytes: int
    read: list[int]
    copied: list[int]
    seconds: float

    @model_validator(mode="after")
    def _require_bytes_of_each_rank(self) -> "Staged":
        if not len(self.hosts) == len(self.read) == len(self.copied):
            lengths = f"`read`: {len(self.read)} numbers, `copied`: {len(self.copied)}"
            raise ValueError(f"{lengths}, but `hosts`: {len(self.hosts)} names")
        return self
