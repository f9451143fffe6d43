"""Connections by ssh that Ansible's tasks share: a private directory for their sockets, removed at the end."""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator import process
from orchestrator.errors import CommandFailed
from orchestrator.state import StateDir

SOCKETS = "orchestrator-"  # then random letters
SPECIAL = set("%$\"'\\ ")  # characters in paths to which ssh gives a meaning
LONGEST_RUNTIME = 53  # bytes, of 104: ssh and Ansible add 30, and the name of the directory has 21


@contextmanager
def shared(state_dir: StateDir) -> Iterator[Path]:
    """Create a directory for the sockets of ssh connections that tasks share; close the connections at the end."""
    forget(state_dir)  # leftovers of a killed deploy
    directory = _runtime() / f"{SOCKETS}{secrets.token_hex(4)}"  # another account cannot guess it and create it first
    link(state_dir).symlink_to(directory)
    directory.mkdir(mode=0o700)
    try:
        yield directory
    finally:
        for socket in directory.iterdir():
            with suppress(CommandFailed):  # it may be closed already
                process.run(
                    "close a connection", ["ssh", "-F", os.devnull, "-O", "exit", "-o", f"ControlPath={socket}", "node"]
                )
        forget(state_dir)


def forget(state_dir: StateDir) -> None:
    """Remove leftovers of a killed deploy: sockets outside the state directory, and the stored environment."""
    for written in (state_dir.ansible / "artifacts").glob("*/command"):  # it may contain a proxy's password
        written.unlink(missing_ok=True)
    if link(state_dir).is_symlink():
        directory = link(state_dir).readlink()
        if directory.name.startswith(SOCKETS) and _is_users_directory(directory):
            shutil.rmtree(directory, ignore_errors=True)
        link(state_dir).unlink()


def link(state_dir: StateDir) -> Path:
    """Return the path of the link to the directory for sockets, by which the next command finds it."""
    return state_dir.ansible / "sockets"


def _runtime() -> Path:
    """Return a directory for temporary files with a short path: ssh limits the path of a socket to 104 bytes.

    Ansible does not escape the path in ssh's options, so a path with special characters is not used either.
    """
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    private = (
        runtime.is_absolute() and _is_users_directory(runtime) and not stat.S_IMODE(runtime.stat().st_mode) & 0o077
    )
    usual = [*([runtime] if private else []), Path(tempfile.gettempdir())]
    return next((path for path in usual if _is_usable(path)), Path("/tmp"))  # noqa: S108


def _is_usable(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST_RUNTIME and not SPECIAL & set(str(path))


def _is_users_directory(path: Path) -> bool:
    """Tell whether ``path`` is a directory of this user, and not a link."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return False
