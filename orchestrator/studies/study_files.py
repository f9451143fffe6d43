"""Study files: read, found by name, and begun from an example."""

from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from orchestrator.config import explain, nearest, yaml_documents
from orchestrator.errors import ConfigError
from orchestrator.schema.bounded_files import Unreadable, shown
from orchestrator.studies.study_definition import Study

SHIPPED = Path(__file__).parent / "shipped"
EXAMPLE = SHIPPED / "example.yaml"
REMEDY = "`orchestrator study init FILE` writes an example with every key"


def example(name: str) -> str:
    """Return the text of the example, as the file of a study called ``name``."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("./example-study", f"./{name}-study")
    return text.replace(f"name: {'example':<21} ", f"name: {yaml_documents.dump(name).splitlines()[0]:<21} ")


def names() -> list[str]:
    """Return the names of the studies that ship with this package."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml") if path != EXAMPLE)


def find(source: str) -> Study:
    """Return the study in the file ``source``, else the shipped study of this name.

    Raises:
        ConfigError: There is neither, or the file is wrong. It holds every problem.
    """
    if source in names() and not Path(source).is_file():
        return read(SHIPPED / f"{source}.yaml")
    return read(Path(source))


def read(path: Path) -> Study:
    """Return the study in a file.

    Raises:
        ConfigError: The file cannot be read, or its content is wrong. It holds every problem.
    """
    try:
        values = yaml_documents.read(path)
    except FileNotFoundError as error:
        included = f"{nearest(str(path), names())} (included: {', '.join(names())})"
        problem = f"{path}: {error.strerror}, and no included study has this name{included}"
        raise ConfigError([problem], REMEDY) from None
    except Unreadable as error:
        raise ConfigError([str(error)], f"correct {path}; {REMEDY}") from None
    if not isinstance(values, dict):
        raise ConfigError([f"{path}: expected keys and values, found {shown(values)}"], REMEDY)
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        valid_keys = list(_keys(Study))
        raise ConfigError([explain(problem, f"{path}: ", valid_keys) for problem in error.errors()], REMEDY) from None


def _keys(model: type[BaseModel], prefix: str = "") -> Any:
    """Yield the paths of all keys."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _keys(kind, f"{prefix}{name}.")
