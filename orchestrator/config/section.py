"""Base class of the sections of cluster.yaml, with the types and limits that several sections use."""

import re
from ipaddress import IPv4Network
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

from orchestrator.schema.bounded_files import shown

NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
NAME_RULE = "1 to 30 of a-z, 0-9 and -, beginning with a letter and not ending with -"
MAX_NODES, MAX_SLOTS = 100, 64
MAX_CYCLE = 1000  # ms, for which messages of Horovod wait; a run with much more stands still
MAX_FUSION = 1 << 20  # MiB of a message of Horovod
MOST = 10**9  # epochs, steps, samples: larger numbers overflow times and prices


def seconds(text: Any) -> Any:
    """Convert "90", "90s", "15m" or "2h" to seconds. Return other values unchanged, for the type check to refuse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip())
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else text


def no_boolean(value: Any) -> Any:
    """Return ``value``. Raise ValueError for yes and no: Python would take them for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is neither a number nor a name")
    return value


def no_number(value: Any) -> Any:
    """Return ``value``. Raise ValueError for a number: Python would take 10 for the address 0.0.0.10."""
    if isinstance(value, int | float):
        raise ValueError(f"{shown(value)}: write it like 198.51.100.0/24")
    return value


# Items of lists and mappings; Section checks the values of other fields.
Number = Annotated[float, BeforeValidator(no_boolean)]
Network = Annotated[IPv4Network, BeforeValidator(no_number)]
Duration = Annotated[float | None, BeforeValidator(lambda v: v if v is None else seconds(v))]


class Section(BaseModel):
    """Section of cluster.yaml. Unknown keys are refused, and so are booleans where a number or a name is expected."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _boolean_only_for_booleans(cls, value: Any, field: ValidationInfo) -> Any:
        annotation = cls.model_fields[field.field_name or ""].annotation
        return value if bool in (annotation, *get_args(annotation)) else no_boolean(value)
