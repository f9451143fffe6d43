"""What every shape is: a file, replaced atomically."""

import os
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class File(BaseModel):
    """Strict about what it must hold, tolerant of keys that a newer version adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically: a reader sees the old file or the new one, never half of one.

        Also after the machine went down: the new one is on the disk before it has its name.
        """
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
            temporary.write(self.model_dump_json(indent=2) + "\n")
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(temporary.name).chmod(0o644)
        Path(temporary.name).replace(path)
