"""Commands on the head about files of a run that may be missing; any other reason not to read them is an error."""

import re
from collections.abc import Sequence

from orchestrator.errors import LAST_LINES, CommandFailed
from orchestrator.ssh import Answer, Session

PROBLEM = re.compile(r"\w+: '?(?P<path>/.*?)'?: (?P<reason>[^:]+)")  # of find and of cat, in English
MISSING = ("No such file or directory", "Not a directory")


def run_on(head: Session, step: str, argv: Sequence[str]) -> Answer:
    """Run a command on files, some of which may be missing.

    A file below a directory that ``argv`` names may be unreadable, too: a script may have written it so.

    Args:
        head: Session on the head.
        step: Purpose of the command, for the error.
        argv: ``find`` or ``cat`` with absolute paths.

    Returns:
        The answer, with exit code 1 if files are missing.

    Raises:
        CommandFailed: A path of ``argv`` cannot be read, as on a file system with errors.
        Unreachable: The connection breaks or is silent for too long.
    """
    answer = head.run(["env", "LC_ALL=C", *argv])
    lines = answer.errors.splitlines()
    wrong = [line for line in lines if _is_unreadable(line, argv)]
    if wrong or answer.exit_code not in (0, 1):
        raise CommandFailed(step, argv, f"exit code {answer.exit_code} on {head.node}", (wrong or lines)[-LAST_LINES:])
    return answer


def _is_unreadable(line: str, argv: Sequence[str]) -> bool:
    problem = PROBLEM.fullmatch(line)
    return bool(problem and problem["path"] in argv and problem["reason"] not in MISSING)
