"""Read requirements files as pip does, with the files that they name; local packages become files to send."""

import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.config import expanded, is_file
from orchestrator.errors import ConfigError
from orchestrator.runs import secret_files, sent_files
from orchestrator.schema import bounded_files

MOST_BYTES = 1 << 20
SENT = "\0"  # in a line: the directory on the head that local files are sent to
COMMENT = re.compile(r"(^|\s+)#.*$")
CONTINUED = re.compile(r"^(?![^\S\n]*#)(.*)\\\r?\n", re.MULTILINE)  # no comment: pip ends it with its line
OPTION = re.compile(r"(?:-(?P<short>[rce])\s*|--(?P<long>requirement|constraint|editable)(?:\s*=\s*|\s+))(?P<value>.+)")
PATH = re.compile(r"(?P<path>[^\[;]+?)(?P<rest>\s*(?:\[[^\]]*\])?\s*(?:;.*)?(?:\s--.*)?)")
# A URL, with or without a name in front; spaces around the @ are optional.
REMOTE = re.compile(r"[a-z+]+:|[\w.-]+\s*(?:\[[^\]]*\])?\s*@(?:\s|\$\{|[a-z+]+:)")
PASSWORD = re.compile(r"://[^/\s]+@")  # to the last @ before a slash: passwords may have more
PER_LINE = re.compile(r"\s+--")  # options of one requirement, such as hashes
ARCHIVES = (".whl", ".zip", ".tar.gz", ".tar.bz2", ".tgz")
PROJECT = ("pyproject.toml", "setup.py")


def logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a requirements file as pip does: joined at a backslash, without comments and blank lines."""
    for line in CONTINUED.sub(r"\1", text).splitlines():
        if stripped := COMMENT.sub("", line).strip():
            yield stripped


def read_text(path: Path) -> str:
    """Read a file that asks for packages. Raises ConfigError."""
    try:
        text = bounded_files.read_text(path, MOST_BYTES)
    except FileNotFoundError:
        raise ConfigError([f"run: {path}: no such file"], "correct the path") from None
    except bounded_files.Unreadable as error:
        raise ConfigError([f"run: {error}"], "a requirements file has one package a line") from None
    if SENT in text:
        raise ConfigError([f"run: {path}: is not text"], "a requirements file has one package a line")
    return text


class Reader:
    """Lines of requirements files, ``requested`` as the user wrote them, and the local ``files`` to send by name.

    Args:
        secret: Files in use that may hold passwords and are not sent.
        wheels: Directory of wheels, which are sent once, and not with a package around it.
    """

    def __init__(self, *secret: Path | None, wheels: Path | None = None) -> None:
        self._secret, self._wheels, self._sent, self._read_files = secret, wheels, 0, set[tuple[Path, bool]]()
        self.requested, self.lines, self.constraints = list[str](), list[str](), list[str]()
        self.files = dict[str, Path]()

    def read(self, path: Path, as_constraints: bool = False) -> None:
        """Read a file and the files that it names. Raises ConfigError."""
        if (path.resolve(), as_constraints) in self._read_files:
            return
        self._read_files.add((path.resolve(), as_constraints))
        text = read_text(path)
        _refuse_credentials(path, path)
        for line in logical_lines(text):
            option = OPTION.fullmatch(line)
            kind, value = ((option["short"] or option["long"][0]), option["value"]) if option else ("", line)
            if kind in ("r", "c") and not REMOTE.match(value):
                self.read(path.parent / value, as_constraints or kind == "c")
            else:
                self._add(kind, value, line, path, as_constraints)

    def _add(self, kind: str, value: str, line: str, path: Path, as_constraints: bool) -> None:
        if kind == "e" or not line.startswith("-"):
            self.requested += [] if as_constraints else [PASSWORD.sub("://****@", PER_LINE.split(line)[0])]
            line = self._local(value, path) if _is_local(value, kind == "e") else value
        (self.constraints if as_constraints else self.lines).append(line)

    def _local(self, value: str, source: Path) -> str:
        """Return the line for a local package or archive, and note the files to send. Raises ConfigError."""
        match = PATH.fullmatch(value)
        path, rest = (expanded(f"run: {source}", Path(match["path"])), match["rest"]) if match else (Path(value), "")
        for candidate in (base / path for base in (source.parent, Path.cwd())):
            if is_file(candidate):
                _refuse_credentials(source, candidate)
                return self._send({candidate.name: candidate}, f"/{candidate.name}{rest}")
            if any(is_file(candidate / name) for name in PROJECT):
                return self.package(candidate, rest)
        raise ConfigError([f"run: {source}: {value}: no Python package is there"], "a package has a pyproject.toml")

    def package(self, directory: Path, rest: str = "") -> str:
        """Note the files of the package in ``directory``; return its line, which ends with ``rest``."""
        selected = sent_files.select(directory.resolve(), *self._secret, wheels=self._wheels)
        return self._send(selected.files, rest)

    def _send(self, files: dict[str, Path], rest: str) -> str:
        self._sent += 1
        self.files |= {f"local/{self._sent}/{name}": path for name, path in files.items()}
        return f"{SENT}local/{self._sent}{rest}"


def _refuse_credentials(source: Path, path: Path) -> None:
    """Refuse to send a file with credentials that ``source``, which may be another person's, names."""
    if reason := next(filter(None, map(secret_files.reason, dict.fromkeys((path, path.resolve())))), None):
        raise ConfigError([f"run: {source}: {path} is not sent: {reason}"], f"remove the line from {source.name}")


def _is_local(value: str, editable: bool) -> bool:
    """Tell whether a requirement is a path, as pip does. Raises ConfigError for the URL of a file."""
    target = PER_LINE.split(value)[0]
    if "file:" in target:
        conda = "`pip list --format=freeze > requirements.txt` writes versions in place of conda's own paths"
        raise ConfigError([f"run: {value}: is the URL of a file"], f"write the path of the file instead; {conda}")
    if REMOTE.match(target):
        return False
    path = target.partition(";")[0].strip()
    return editable or path.startswith((".", "/", "~")) or "/" in path.partition("[")[0] or path.endswith(ARCHIVES)
