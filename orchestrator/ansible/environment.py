"""Environment of Ansible: the variables that it needs of this process, and its settings."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator import ssh, state
from orchestrator.process import interrupts
from orchestrator.state import StateDir

# Variables for programs in general, for ssh through the user's jump host, and for gcloud's tunnel.
NEEDED = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|TERM|TZ|TMPDIR|LANG|LC_\w+|XDG_\w+|PYTHONPATH|LD_LIBRARY_PATH|KRB5CCNAME"
    r"|SSH_AUTH_SOCK|SSH_AGENT_PID|SSH_ASKPASS\w*|DISPLAY"
    r"|CLOUDSDK_(?!\w*TOKEN)\w+|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE"
    rf"|{interrupts.OWNER}"
)


@contextmanager
def needed_variables() -> Iterator[None]:
    """Keep only environment variables that Ansible and ssh need.

    ansible-runner passes on all of them, and writes them, including a cloud's password, to a file that a killed deploy
    leaves.
    """
    removed = {name: os.environ.pop(name) for name in list(os.environ) if not NEEDED.fullmatch(name)}
    try:
        yield
    finally:
        os.environ.update(removed)


def settings(state_dir: StateDir, sockets: Path, jumps: bool) -> dict[str, str]:
    """Return variables that set Ansible up.

    Args:
        state_dir: State directory of the cluster.
        sockets: Directory for the sockets of ssh connections.
        jumps: Whether hosts are reached through another machine.
    """
    bin_directory = str(Path(sys.executable).parent)  # ansible-playbook is installed there, whatever the PATH
    empty = state_dir.ansible / "ansible.cfg"
    state.replace(empty, "# Empty, so that no other file with settings is looked for.\n")
    return {
        "PATH": os.pathsep.join([bin_directory, os.environ.get("PATH", os.defpath)]),
        "LC_ALL": "C.UTF-8",  # Ansible refuses a missing locale, which ssh may pass on
        "ANSIBLE_CONFIG": str(empty),
        "ANSIBLE_FORKS": str(ssh.AT_ONCE[jumps]),
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_GATHERING": "explicit",
        # Else a compromised node, whose modules may return any facts, sets variables of tasks that run on this machine.
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_LOCAL_TEMP": str(state_dir.ansible / "tmp"),
        "ANSIBLE_HOME": str(state_dir.ansible / "home"),
        "ANSIBLE_TIMEOUT": "60",  # sudo's prompt may take that long on a machine that installs packages
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
