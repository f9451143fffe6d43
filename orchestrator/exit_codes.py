"""Every exit code: of the commands, of runs, and of the programs of a run. It imports the standard library only.

docs/reference/exit-codes.md lists those of the commands.
"""

import signal

# Of commands, by the class in orchestrator.errors, or without one.
FAILED = 1
WRONG_INPUT = 2  # also Typer's for an option that a command does not have
BUG = 3
RERUN = {"equal": 0, "within tolerance": 10, "different": 11}  # by the verdict of the comparison
RUN_STOPPED = 75  # also of a training run that left a checkpoint: EX_TEMPFAIL of BSD's sysexits.h, "try again later"
INTERRUPTED = 130

# Of programs, as shells and ssh give them.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
KILLED = 128 + signal.SIGKILL
TERMINATED = 128 + signal.SIGTERM
SSH_FAILED = 255  # the connection is lost, or the remote command is killed
