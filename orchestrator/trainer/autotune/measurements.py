"""Store of what is measured once: a file per value, found by its name and by all that the value depends on.

A node keeps its values in the temporary directory. Values that ranks measured together are in the directory of all
runs. A file that is missing, damaged, or of another version or CPU gives no value, so that it is measured again.
"""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from orchestrator import __version__, untrusted_files
from orchestrator.schema.atomic_write import replaced
from orchestrator.trainer import cpu_model

ONEDNN = ("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS")  # variables that limit the instructions TensorFlow uses
UNREADABLE = (OSError, ValueError, LookupError, TypeError, RecursionError)  # a file that is missing or damaged
Value = TypeVar("Value")


class Entry:
    """A measured value of this version and of this CPU."""

    def __init__(self, name: str, directory: "Path | None" = None, **settings: object) -> None:
        """Describe a value by what it depends on, in JSON's types; ``directory`` is the node's if it is None."""
        limits = [os.environ.get(variable) for variable in ONEDNN]
        self._depends = {"version": __version__, "cpu": cpu_model.kind(), "limits": limits, **settings}
        digest = hashlib.sha256(json.dumps(self._depends, sort_keys=True).encode()).hexdigest()[:12]
        self.path = (directory or Path(tempfile.gettempdir())) / f".orchestrator-{name}-{digest}.json"

    def read(self, kind: type[Value]) -> "Value | None":
        """Return the stored value; None if there is none, or none of this kind."""
        with suppress(*UNREADABLE), untrusted_files.open_regular(self.path) as file:
            stored = json.load(file)
            if stored["depends"] == self._depends and isinstance(stored["value"], kind):
                return stored["value"]
        return None

    def write(self, value: object) -> None:
        """Store a value for all users of the node; it is measured again if that fails (a full disk, another owner)."""
        with suppress(OSError), replaced(self.path, 0o644) as file:
            file.write(json.dumps({"depends": self._depends, "value": value}).encode() + b"\n")
