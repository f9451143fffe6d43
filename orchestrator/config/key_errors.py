"""Keys of cluster.yaml, and messages about wrong keys."""

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from orchestrator.config import yaml_documents
from orchestrator.config.model import Config
from orchestrator.schema.bounded_files import location, shown


def explain(error: Any, where: str, valid_keys: list[str]) -> str:
    """Format one of pydantic's errors as ``where`` and ``path.to.key: problem``.

    Args:
        error: An item of ``ValidationError.errors()``.
        where: Prefix of the key, such as the name of the file.
        valid_keys: Valid keys; the nearest one is suggested for an unknown key.

    Returns:
        The message, with the wrong value unless it may be a password.
    """
    key, kind = location(error["loc"]), error["type"]
    full_key = f"{where}{key}"
    if kind == "extra_forbidden":
        return f"{full_key}: unknown key{nearest(key, valid_keys)}"
    detail = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    says_it = kind in ("value_error", "missing") or key.endswith("password")
    place = f"{full_key}: " if key else where
    return f"{place}{detail}" if says_it else f"{place}{shown(error['input'])}: {detail}"


def nearest(word: str, candidates: list[str]) -> str:
    """Return ", did you mean X?" if an item of ``candidates`` is similar to ``word``, else an empty text."""
    match = difflib.get_close_matches(word, candidates, n=1)
    return f", did you mean {match[0]}?" if match else ""


def every_key(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield (path, description, default) of every key. A section precedes its keys and has None as default."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield f"{prefix}{name}", (field.annotation.__doc__ or "").strip(), None
            yield from every_key(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.description or "", to_jsonable_python(field.default)


def template() -> str:
    """Return a cluster.yaml with every key, its meaning and its default. Keys without a default are commented out."""
    lines = ["# Every key with its default. Delete what you do not need; flags override the values here."]
    for path, description, default in every_key():
        name, depth = path.rpartition(".")[2], path.count(".")
        indent = "  " * depth
        if default is None and is_section(path):
            lines += ["", f"{indent}# {description}", f"{indent}{name}:"]
        else:
            shown = "" if default is None else f" {yaml_documents.dump(default).splitlines()[0]}"
            mark = "# " if default is None or name == "nodes" else ""  # without `nodes`, hosts are counted
            lines.append(f"{indent}{mark}{name}:{shown}".ljust(35) + f" # {description}")
    return "\n".join(lines) + "\n"


def is_set(config: BaseModel, path: str) -> bool:
    """Tell whether a key, or an item of its list, was set explicitly."""
    value: Any = config
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, BaseModel) and part in value.model_fields_set:
            value = getattr(value, part)
        else:
            return False
    return True


def is_section(path: str) -> bool:
    """Tell whether ``path`` names a section of cluster.yaml."""
    field = Config.model_fields.get(path)
    return bool(field and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel))
