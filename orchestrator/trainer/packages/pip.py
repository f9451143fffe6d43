"""Run pip for an overlay, and read from its output why it failed."""

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.launch_layout import SEARCH_PATH
from orchestrator.schema.packages import PackageConflict, PackagesProblem, PackagesRequest
from orchestrator.trainer.packages.conflicts_with_image import Protected, conflict, requirement

OPTIONS = ("--progress-bar", "off", "--no-warn-script-location", "--disable-pip-version-check", "--no-input")
SETTINGS = {
    "LANG": "C.UTF-8",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "2",
    "PIP_DEFAULT_TIMEOUT": "20",
    "GIT_TERMINAL_PROMPT": "0",  # a repository that asks for a password is refused
}
SCM_VERSION, NO_VERSION = "SETUPTOOLS_SCM_PRETEND_VERSION", "0.0"
BEAT_SECONDS = 10.0  # the control side takes a connection without a word for dead
MOST_LINES, LAST_LINES, LONGEST = 10_000, 20, 500
OFFLINE = re.compile(r"connection broken by|Could not fetch URL|CERTIFICATE_VERIFY_FAILED|Max retries exceeded")
MISSING = re.compile(r"ERROR: No matching distribution found for (.+)")
DEPENDS = re.compile(
    r" +(?:The user requested (?P<constraint>\(constraint\) )?|(?P<by>\S+ \S+) depends on )(?P<need>.+)"
)


class Abandoned(Exception):
    """The control side closed the connection: the user no longer waits for the packages."""


class Failed(Exception):
    """pip failed; ``problem`` says why."""

    def __init__(self, problem: PackagesProblem) -> None:
        super().__init__(problem.kind)
        self.problem = problem


def install(overlay: Path, request: PackagesRequest, image: Protected, say: Callable[[str], None]) -> None:
    """Install what ``request`` asks for into an empty overlay.

    Args:
        overlay: Directory of the overlay.
        request: The packages.
        image: Packages that keep the version of the image.
        say: Called with lines of progress, at least every BEAT_SECONDS.

    Raises:
        Failed: pip failed.
        Abandoned: Standard input was closed.
    """
    with tempfile.TemporaryDirectory() as temporary:  # readable by this account alone: lines may hold passwords
        texts = {
            "requirements.txt": "\n".join(request.requirements),
            "constraints.txt": "\n".join([*image.constraints(), *request.constraints]),
            "ca-bundle.crt": request.certificates,
        }
        requirements, constraints, certificates = (Path(temporary, name) for name in texts)
        for name, text in texts.items():
            Path(temporary, name).write_text(text + "\n")
        files = ("--constraint", str(constraints), "--requirement", str(requirements))
        argv = [str(overlay / "bin" / "python"), "-m", "pip", "install", *OPTIONS, *files]
        trusted = {"PIP_CERT": str(certificates), "GIT_SSL_CAINFO": str(certificates)}
        environment = {**trusted, **_environment(request)}
        lines = list[str]()
        if code := _run(argv, environment, lines, say):
            raise Failed(problem(lines or [f"exit code {code}"], image, request.wheels is None))


def _environment(request: PackagesRequest) -> dict[str, str]:
    """Return pip's environment; it reaches pip's own helpers, which get what is needed to build packages."""
    only = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": request.wheels} if request.wheels else {}
    inherited = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    versions = _versions(request.requirements)
    return {"PATH": SEARCH_PATH, **inherited, **SETTINGS, **versions, **request.environment, **only}


def _versions(lines: Sequence[str]) -> dict[str, str]:
    """Return variables with a version for local packages that take theirs from git: .git is not sent.

    Source: setuptools-scm's page "Overrides". hatch-vcs tells it no name of a package, so it gets the general variable.
    """
    variables = {}
    for directory in (re.split(r"[\[;\s]", line)[0] for line in lines if line.startswith("/")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # pip names the mistake
            content = read_toml(Path(directory, "pyproject.toml").read_text())
            project, needs = content["project"], content["build-system"]["requires"]
            if "version" in project["dynamic"]:
                name = re.sub(r"[-_.]+", "_", project["name"]).upper()
                general = any(re.match(r"hatch[-_.]vcs\b", need, re.IGNORECASE) for need in needs)
                variables[SCM_VERSION if general else f"{SCM_VERSION}_FOR_{name}"] = NO_VERSION
    return variables


def read_toml(text: str) -> dict[str, Any]:
    import tomllib  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  Python 3.10 of the control side lacks it

    return tomllib.loads(text)


def _run(argv: Sequence[str], environment: dict[str, str], lines: list[str], say: Callable[[str], None]) -> int:
    """Run ``argv``, collect its lines and return its exit code. Raises Abandoned if standard input is closed."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(argv, env=environment, start_new_session=True, **streams) as process:  # type: ignore[call-overload]
        try:
            for line in _lines(process.stdout.fileno()):
                lines += [line] if line else []
                del lines[:-MOST_LINES]
                say(line or (lines[-1] if lines else "pip starts"))
            return int(process.wait())
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _lines(output: int) -> Iterator[str]:
    """Yield lines from the descriptor ``output`` until it ends, and "" if there was none for BEAT_SECONDS."""
    poll, rest = select.poll(), b""
    for descriptor in (output, sys.stdin.fileno()):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll(BEAT_SECONDS * 1000)}
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 1):
            raise Abandoned
        if output in ready:
            piece = os.read(output, 1 << 16)
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line.decode(errors="replace").rstrip()[:LONGEST] for line in whole if line.strip())
            if not piece:
                return
        elif not ready:
            yield ""


def problem(lines: Sequence[str], image: Protected, from_index: bool = True) -> PackagesProblem:
    """Say why pip failed from the lines that it wrote.

    Args:
        lines: All lines.
        image: Packages that keep the version of the image.
        from_index: Whether pip was to use a package index.

    Returns:
        The problem, with pip's last lines.
    """
    tail = list(lines[-LAST_LINES:])
    if conflicts := _conflicts(lines, image):
        return PackagesProblem(kind="conflict", conflicts=conflicts, lines=tail)
    if from_index and any(OFFLINE.search(line) for line in lines):
        return PackagesProblem(kind="offline", lines=tail)
    missing = [match[1] for line in lines if (match := MISSING.match(line))]
    if missing:
        return PackagesProblem(kind="missing", package=missing[0], lines=tail)
    return PackagesProblem(kind="failed", lines=tail)


def _conflicts(lines: Sequence[str], image: Protected) -> list[PackageConflict]:
    """Return what asks for other versions of protected packages, as pip lists it at the end of a failed search."""
    causes = [cause for line in lines if (cause := DEPENDS.fullmatch(line)) and not cause["constraint"]]
    needs = [(cause["by"], need) for cause in causes if (need := requirement(cause["need"].replace(" and ", ",")))]
    return [clash for by, need in needs if (clash := conflict(image, need, by)) is not None]
