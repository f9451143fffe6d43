"""What a look into a directory gives: a data set, or why it is none."""

from dataclasses import dataclass


class DataError(Exception):
    """A directory that does not hold the data set; the message says what is wrong and what was expected."""


@dataclass(frozen=True)
class Found:
    """A data set in a directory: the files it consists of, relative to it, and the number of samples of each split.

    ``shards`` says whether these are TFRecord shards rather than the files of single images, or of the whole.
    """

    files: list[str]
    train: int
    test: int
    note: str = ""
    shards: bool = False


class Damaged(DataError):
    """Samples that cannot be read in a data set which is otherwise as it should be, and ``found`` all the same."""

    def __init__(self, message: str, found: Found) -> None:
        super().__init__(message)
        self.found = found
