"""Prepare the process of a command: its streams, locale, arguments and working directory, in any state."""

import locale
import os
import sys
from typing import Any, TextIO, cast

from orchestrator.errors import NO_SPACE, ConfigError, OrchestratorError, PreflightError


class ReaderGone(Exception):
    """The reader of standard output, for example `head`, has closed it."""


class Results:
    """Standard output: a failed write is reported once, and the rest of the output is discarded."""

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
        hint = "the command may have done its work: `orchestrator status` shows the cluster"
        raise OrchestratorError(f"standard output: {error.strerror}", hint) from None

    def _discard(self) -> None:
        """Discard unwritten output, which the interpreter would otherwise try to write again when it exits."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress(Results):
    """Standard error: a failed write never ends a command."""

    def _failed(self, error: OSError) -> None:
        self._discard()


def prepare() -> None:
    """Make every standard stream usable, and text UTF-8."""
    _speak_utf8()
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):  # a write to 1 must fail
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = cast(TextIO, Results(_lenient(sys.stdout or os.fdopen(1, "w", closefd=False))))
    sys.stderr = cast(TextIO, Progress(_lenient(sys.stderr or os.fdopen(2, "w", closefd=False))))


def _lenient(stream: TextIO) -> TextIO:
    """Let the stream write characters that its encoding lacks as escapes."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _speak_utf8() -> None:
    """Restart in Python's UTF-8 mode if the locale has another encoding, since libraries open files with it."""
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8") and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def lack_of_space(error: Exception) -> str:
    """Return what has no space left if ``error`` is about a lack of space, else ""."""
    lacks = isinstance(error, OSError) and (error.errno in NO_SPACE or "No usable temporary directory" in str(error))
    return f"{getattr(error, 'filename', None) or 'this machine'}: {getattr(error, 'strerror', error)}" if lacks else ""


def require_utf8_arguments() -> None:
    """Check that all arguments are UTF-8, since the files of a run could not store others.

    Raises:
        ConfigError: An argument is not.
    """
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise ConfigError([f"argument {os.fsencode(argument)!r}: not UTF-8"], "rename that file") from None


def require_directory() -> None:
    """Check that the working directory still exists.

    Raises:
        PreflightError: It was removed.
    """
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise PreflightError(f"the working directory: {error.strerror}", "`cd` to a directory that exists") from None
