"""Exit codes of the programs of a run, as shells and ssh give them."""

import signal

NOT_EXECUTABLE, NOT_FOUND = 126, 127
TERMINATED = 128 + signal.SIGTERM
SSH_FAILED = 255  # of ssh if the connection is lost or the remote command is killed
