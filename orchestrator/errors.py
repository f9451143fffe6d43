"""Errors that users can meet, and the exit codes of each.

    OrchestratorError          message, hint, exit_code = 1
    ├── ConfigError      (2)   all problems at once, each as  path.in.yaml: what is wrong
    ├── PreflightError   (2)   tool, credential, quota, permission or data missing; the hint is the remedy
    ├── StateError       (1)   not deployed · locked by pid N since … · written by a newer version
    ├── CommandFailed    (1)   a tool failed: step, command, exit code, last lines, path of the log
    ├── NodesFailed      (1)   some nodes failed, each with its own reason
    ├── RunFailed        (1)   a run did not finish: the first failing rank and its host
    │   └── RunStopped  (75)   a training run was asked to stop, and left a checkpoint
    └── ContractError    (1)   a tool succeeded but its answer has the wrong shape

Code below the command line raises these and never prints or exits. Any other exception that reaches the command line is
a bug (exit code 3). The numbers of all codes are in exit_codes.py.
"""

import errno
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from orchestrator import exit_codes

LAST_LINES = 20  # of the output of a tool that failed
# Reasons for which a file cannot be written, never a socket, and the remedy of each.
NO_SPACE = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "remove files of yours there, or ask for a larger disk quota: `quota -s` shows yours",
    errno.EFBIG: "raise the limit of `ulimit -f`",
}


def space_hint(reason: str) -> str:
    """Return the remedy if ``reason``, the message of a failed write, is a lack of space, else ""."""
    return next((remedy for code, remedy in NO_SPACE.items() if os.strerror(code) in reason), "")


def command(words: str, cluster: str = "default") -> str:
    """Return a command of the orchestrator for a hint, ready to be pasted, for the cluster in question.

    A host that another person controls may have named the cluster.
    """
    named = "" if cluster == "default" else f" --cluster {shlex.quote(cluster)}"
    return f"`orchestrator {words}{named}`"


class OrchestratorError(Exception):
    """Any other failure. The base class of all errors."""

    exit_code = exit_codes.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class ConfigError(OrchestratorError):
    """A wrong option, key, value or file; nothing was changed."""

    exit_code = exit_codes.WRONG_INPUT

    def __init__(self, problems: Sequence[str], hint: str = "") -> None:
        super().__init__("\n".join(problems), hint)
        self.problems = list(problems)


class PreflightError(OrchestratorError):
    """A tool, credential, quota, permission or file is missing; nothing was changed.

    ``others`` are further findings of the same check.
    """

    exit_code = exit_codes.WRONG_INPUT

    def __init__(self, message: str, hint: str = "", others: Sequence["PreflightError"] = ()) -> None:
        super().__init__(message, hint)
        self.findings = [PreflightError(message, hint), *others] if others else [self]
        if others:
            self.message = "\n".join(f"{finding.message}\n    {finding.hint}" for finding in self.findings)
            self.hint = f"{len(self.findings)} problems; nothing was changed"


def gather(*checks: Callable[[], object]) -> None:
    """Run every check and collect the failures.

    Raises:
        PreflightError: Some checks failed; it has each finding once, with its own remedy.
    """
    problems: list[PreflightError] = []
    for check in checks:
        try:
            check()
        except PreflightError as error:
            problems += [
                finding
                for finding in error.findings
                if finding.message not in {problem.message for problem in problems}
            ]
    if problems:
        raise PreflightError(problems[0].message, problems[0].hint, problems[1:])


class StateError(OrchestratorError):
    """The cluster is not deployed, is locked by another command, or was written by a newer version."""


class CommandFailed(OrchestratorError):
    """An external tool failed."""

    def __init__(
        self, step: str, argv: Sequence[str], exit_code: int | str, tail: Sequence[str], log: Path | None = None
    ) -> None:
        last = "".join(f"\n    {line}" for line in tail)
        super().__init__(
            f"{step}: `{shlex.join(argv)}` failed ({exit_code}):{last}", f"whole log: {log}" if log else ""
        )
        self.step, self.argv, self.tail, self.log = step, list(argv), list(tail), log


class NodesFailed(OrchestratorError):
    """Some nodes failed, each with its own reason."""

    def __init__(self, what: str, reasons: Mapping[str, str], hint: str = "") -> None:
        lines = "".join(f"\n    {node}: {reason}" for node, reason in reasons.items())
        super().__init__(f"{what}: {', '.join(reasons)}{lines}", hint)
        self.reasons = dict(reasons)


class RunFailed(OrchestratorError):
    """A run failed."""


class RunStopped(RunFailed):
    """A training run was stopped, or its node was shut down; it wrote a checkpoint and can be resumed."""

    exit_code = exit_codes.RUN_STOPPED


class ContractError(OrchestratorError):
    """The output of a tool has an unexpected form: its version does not fit, or this is a bug."""
