"""Base model of every file, and the type of a time in it."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.schema.atomic_write import replaced

# Seconds since the epoch, in a year that every library can represent.
LATEST = 1e11
Time = Annotated[float, Field(ge=0, le=LATEST, allow_inf_nan=False)]


class File(BaseModel):
    """Model that is strict about its own keys and ignores keys that a newer version adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically, readable by all users."""
        with replaced(path, 0o644) as file:
            file.write(self.model_dump_json(indent=2).encode() + b"\n")
