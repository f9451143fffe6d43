#!/usr/bin/python3 -IS
"""Run the program of the same name in the trainer container, in the same process, account, directory and environment.

:func:`call` runs as the caller's account and becomes root through sudo, which leaves no process of its own in between.
:func:`enter` runs as root, enters the container's mount namespace, and gives up root again. The environment is passed
in one variable: sudo and the loader would drop parts of it, and every account could read it in the arguments.
"""

import base64
import ctypes
import os
import pwd
import signal
import sys

ENTER = "/opt/orchestrator/bin/enter"
CONTAINER = "/run/orchestrator/trainer.pid"
SEARCHED = ("/opt/orchestrator/bin", "/usr/local/bin", "/usr/bin")
CARRIED = "ORCHESTRATOR_ENVIRONMENT"
CLONE_NEWNS = 0x00020000  # linux/sched.h
FAILED = 125


def call(program: str, arguments: "list[str]") -> None:
    """Run this script again as root."""
    packed = base64.b64encode(b"\0".join(b"=".join(variable) for variable in os.environb.items()))
    os.execve(
        "/usr/bin/sudo", ["sudo", "--non-interactive", "--", ENTER, program, *arguments], {CARRIED.encode(): packed}
    )


def enter(program: str, arguments: "list[str]") -> None:
    """Replace this process by ``program`` of the container."""
    variables = base64.b64decode(os.environ[CARRIED]).split(b"\0")
    environment = dict(variable.split(b"=", 1) for variable in variables if variable)
    account, directory = pwd.getpwuid(int(os.environ["SUDO_UID"])), os.getcwd()
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    _take_files_of(_container())
    os.setgroups(groups)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.chdir(directory)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
        signal.signal(number, signal.SIG_DFL)
    path = next(filter(os.path.exists, (f"{folder}/{program}" for folder in SEARCHED)), program)
    os.execve(path, [path, *arguments], environment)


def _container() -> str:
    try:
        with open(CONTAINER) as file:
            return file.read().strip()
    except FileNotFoundError:
        sys.exit(f"the trainer container does not run on {os.uname().nodename}: see `systemctl status trainer` there")


def _take_files_of(pid: str) -> None:
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "cannot enter the trainer container")


if __name__ == "__main__":
    try:
        if os.geteuid() == 0 and CARRIED in os.environ:
            enter(sys.argv[1], sys.argv[2:])
        call(os.path.basename(sys.argv[0]), sys.argv[1:])
    except OSError as error:
        print(f"{ENTER}: {error}", file=sys.stderr)
        sys.exit(FAILED)
