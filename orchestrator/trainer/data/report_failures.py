"""One line instead of a traceback if a rank cannot read or write its data, as on a full disk."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer.data.bad_samples import reason_of
from orchestrator.trainer.data.inspection import DataError

REMEDY = "correct this and run the command again, which keeps complete shards"


@contextmanager
def name_unwritable(path: Path) -> Iterator[None]:
    """Turn an error of the file system into DataError that names ``path``, the file to write."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        reason = reason_of(error) if isinstance(error, tf.errors.OpError) else error.strerror
        raise DataError(f"{path} cannot be written: {reason}: {REMEDY}") from error


@contextmanager
def end_in_one_line() -> Iterator[None]:
    """End this rank with its number, its host and the reason if its data cannot be read or written."""
    try:
        yield
    except (DataError, OSError, tf.errors.OpError) as error:
        reason = reason_of(error) if isinstance(error, tf.errors.OpError) else error
        sys.exit(f"rank {hvd.rank()} on {socket.gethostname()}: {reason}")
