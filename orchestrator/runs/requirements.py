"""Python packages that a script asks for: in requirements.txt or pyproject.toml, and wheels to send."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.runs import sent_files
from orchestrator.runs.locate_script import locate
from orchestrator.runs.requirements_file import SENT, Reader, read_text

NAMES, WHEELS = ("requirements.txt", "pyproject.toml"), "wheels"
IMAGE_PYTHON = "3.11"  # Debian 12's
INDEX = re.compile(r"-[if]\b|--(?:index-url|extra-index-url|find-links)\b")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
# Variables with credentials of a cloud or of this program. No node gets them, and pip would send them on.
CREDENTIAL = re.compile(
    r"(?:OS|AWS|AZURE|ARM|GOOGLE|CLOUDSDK|TF|ORCHESTRATOR)_\w*(?:PASSWORD|SECRET|TOKEN|KEY|CREDENTIAL)\w*"
)
BASE = rf"{WHEELS}/.*|local/\d+/(?:[^/]+\.(?:toml|cfg|txt|whl|zip|gz|bz2|tgz)|setup\.py)"
NO_PACKAGE = re.compile(r"^\s*package(?:-mode)?\s*=\s*false\b", re.MULTILINE)  # Poetry's and uv's keys
TABLE = re.compile(r"^\s*\[\s*(project|build-system)\s*\]", re.MULTILINE)  # Python 3.10 has no parser for TOML


@dataclass(frozen=True)
class Requirements:
    """Packages that a script asks for, as lines of pip's files; SENT in them is the directory that gets ``files``.

    ``requested`` are the lines as the user wrote them. ``pyproject`` is the text of a pyproject.toml whose dependencies
    are installed, if it is no package itself. ``unhashed`` are files that may change without installing again.
    """

    source: str
    requested: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    pyproject: str | None = None
    wheels: bool = False
    unhashed: frozenset[Path] = frozenset()

    def digest(self, image: str) -> str:
        """Return twelve hexadecimal digits of everything that decides what is installed on the trainer ``image``."""
        return self._digest(image, {name for name, path in self.files.items() if path.resolve() not in self.unhashed})

    def base(self, image: str) -> str:
        """Return a digest that stays if only the code of local packages changes, so that what they need can stay."""
        return self._digest(image, {name for name in self.files if re.fullmatch(BASE, name)})

    def _digest(self, image: str, names: Iterable[str]) -> str:
        contents = [(name, _sha256(self.files[name])) for name in sorted(names)]
        parts = [image, sorted(self.lines), sorted(self.constraints), contents, self.pyproject, self.wheels]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def variables(self) -> list[str]:
        """Return the names of the user's variables whose values pip gets."""
        lines = "\n".join([*self.lines, *self.constraints])
        return sorted({name for name in VARIABLE.findall(lines) if name in os.environ})

    def sent_to(self, directory: str) -> tuple[list[str], list[str]]:
        """Return lines and constraints with ``files`` in ``directory`` on the head, and the values of variables."""
        lines, constraints = (
            [VARIABLE.sub(_value, line).replace(SENT, f"{directory}/") for line in several]
            for several in (self.lines, self.constraints)
        )
        return lines, constraints


def find(
    argv: Sequence[str], file: Path | None = None, wheels: Path | None = None, *secret: Path | None
) -> Requirements | None:
    """Find what the script that ``argv`` runs asks for: in ``file``, else in a file of NAMES in its directory.

    Args:
        argv: As for locate_script.locate.
        file: A requirements file or a pyproject.toml.
        wheels: Directory of the only wheels to use; None for a package index.
        secret: Files in use that may hold passwords.

    Returns:
        The requirements; None if there are none.

    Raises:
        ConfigError: A file is missing or cannot be read.
    """
    directory, command, _ = locate(argv)
    chosen = file or next((path for name in NAMES if (path := directory / name).is_file()), None)
    requirements = _read(chosen, *secret, wheels=wheels) if chosen else None
    if requirements is None:
        if file or wheels:
            problem = f"{chosen} asks for no packages" if chosen else f"no {' or '.join(NAMES)} is in {directory}"
            raise ConfigError([f"run: {problem}"], "--requirements FILE names a file that does")
        return None
    scripts = frozenset((directory / argument).resolve() for argument in command if argument.endswith(".py"))
    return replace(_from_wheels(requirements, wheels) if wheels else requirements, unhashed=scripts)


def of_file(path: Path) -> Requirements:
    """Return what the file ``path`` asks for. Raises ConfigError if it cannot be read, or asks for nothing."""
    requirements = _read(path)
    if requirements is None:
        raise ConfigError([f"run: {path} asks for no packages"], "--requirements FILE names a file that does")
    return requirements


def _read(path: Path, *secret: Path | None, wheels: Path | None = None) -> Requirements | None:
    """Read a file that asks for packages; None if it is a pyproject.toml without a project. Raises ConfigError."""
    reader = Reader(*secret, wheels=wheels)
    if path.suffix != ".toml":
        reader.read(path)
        requirements = Requirements(path.name, reader.requested, reader.lines, reader.constraints, reader.files)
        return _without_credentials(requirements)
    text = read_text(path)
    tables = set(TABLE.findall(text))
    if "build-system" in tables and not NO_PACKAGE.search(text):
        return Requirements(path.name, ["."], [reader.package(path.parent)], [], reader.files)
    if "project" not in tables:
        return None
    return Requirements(path.name, [f"the dependencies of {path.name}"], pyproject=text)


def _without_credentials(requirements: Requirements) -> Requirements:
    """Return ``requirements``. Raise ConfigError if their lines, which may be another person's, ask for credentials."""
    asked = [name for name in requirements.variables if CREDENTIAL.fullmatch(name)]
    if asked:
        source = requirements.source
        raise ConfigError(
            [f"run: {source}: asks for the value of {name}, a credential that no node gets" for name in asked],
            f"remove the line from {source}; if a package index needs the value, export it under another name",
        )
    return requirements


def _from_wheels(requirements: Requirements, directory: Path) -> Requirements:
    """Return ``requirements`` with the wheels in ``directory`` as the only source.

    Raises ConfigError if there are none.
    """
    wheels = {f"{WHEELS}/{path.name}": path for path in sorted(directory.glob("*.whl"))}
    if not wheels:
        get = f"pip download --only-binary :all: --python-version {IMAGE_PYTHON} --dest {directory}"
        raise ConfigError(
            [f"run: --wheels {directory}: no wheel is there"], f"`{get} -r {requirements.source}` gets them"
        )
    lines = [line for line in requirements.lines if not INDEX.match(line)]
    return replace(requirements, lines=lines, files={**requirements.files, **wheels}, wheels=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with sent_files.readable(), path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _value(variable: re.Match[str]) -> str:
    return os.environ.get(variable[1], variable[0])
