"""The process around a command: its streams, locale, arguments and working directory, whatever state they are in."""

import errno
import locale
import os
import sys
from typing import Any, TextIO, cast

from orchestrator.errors import ConfigError, OrchestratorError, PreflightError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ReaderGone(Exception):
    """The reader of our output, `head` for one, has seen enough."""


class Results:
    """Standard output: a write that fails is one error, and what was not written is let go."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self._discard()
        if isinstance(error, BrokenPipeError):
            raise ReaderGone from None
        hint = "what the command was asked to do may be done: `orchestrator status` shows the cluster"
        raise OrchestratorError(f"standard output: {error.strerror}", hint) from None

    def _discard(self) -> None:
        """Let go of what could not be written, which the end of the interpreter would try again."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress(Results):
    """Standard error: what cannot be said there ends no command."""

    def _failed(self, error: OSError) -> None:
        self._discard()


def prepare() -> None:
    """Make every standard stream usable, and text UTF-8."""
    _speak_utf8()
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):  # a write to 1 is to fail
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = cast(TextIO, Results(_lenient(sys.stdout or os.fdopen(1, "w", closefd=False))))
    sys.stderr = cast(TextIO, Progress(_lenient(sys.stderr or os.fdopen(2, "w", closefd=False))))


def _lenient(stream: TextIO) -> TextIO:
    """Write characters that an encoding lacks as escapes."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _speak_utf8() -> None:
    """Begin again in Python's UTF-8 mode if the locale has another encoding: libraries open files by it."""
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8") and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def lack_of_space(error: Exception) -> str:
    """Return what this machine has no room for if ``error`` says only that, else nothing."""
    lacks = isinstance(error, OSError) and (error.errno in FULL or "No usable temporary directory" in str(error))
    return f"{getattr(error, 'filename', None) or 'this machine'}: {getattr(error, 'strerror', error)}" if lacks else ""


def require_utf8_arguments() -> None:
    """Raise ConfigError if an argument is not UTF-8: the files of a run could not hold it."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise ConfigError([f"argument {os.fsencode(argument)!r}: not UTF-8"], "rename what it names") from None


def require_directory() -> None:
    """Raises PreflightError if the working directory was removed."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise PreflightError(f"the working directory: {error.strerror}", "`cd` to a directory that exists") from None
