"""Result of an inspection: a data set, or the reason why a directory holds none."""

from dataclasses import dataclass


class DataError(Exception):
    """A directory does not hold the data set; the message names the fault and the expected content."""


@dataclass(frozen=True)
class DatasetFiles:
    """A data set in a directory: its files, relative to the directory, and the number of samples of each split.

    ``shards`` is set for TFRecord shards rather than files of single images or of a whole split. ``classes`` is
    the number of classes in class folders; 0 if it is fixed or not known.
    """

    files: list[str]
    train: int
    test: int
    note: str = ""
    shards: bool = False
    classes: int = 0


class Damaged(DataError):
    """Unreadable samples in a data set that is otherwise valid and described by ``dataset``."""

    def __init__(self, message: str, dataset: DatasetFiles) -> None:
        super().__init__(message)
        self.dataset = dataset
