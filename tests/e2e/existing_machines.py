"""Containers that look like existing ssh hosts, and a command of a user who can log into them."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from orchestrator.ssh import key_pair
from tests.e2e.command import LABEL, Cli, docker, wait_for

SYSTEMD_OPTIONS = ("--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined", "--cgroupns", "private",
                    "--tmpfs", "/run", "--tmpfs", "/run/lock", "--shm-size", "1g")  # fmt: skip
# With cgroup v2, Docker mounts the hierarchy read-only, and systemd writes there.
MACHINE_OPTIONS = ("--entrypoint", "sh")
START_MACHINE = ("-c", "mount -o remount,rw /sys/fs/cgroup 2> /dev/null; exec node-init")


class ExistingMachines:
    """Machines of one ``owner``, with a network and a /shared between them."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._label = f"{LABEL}={owner}"

    def prepare(self) -> None:
        """Remove the machines of earlier tests, then create the network and the storage."""
        self.remove()
        for kind in ("network", "volume"):
            docker(kind, "create", *self._labelled(), self.owner)

    def start(self, name: str, image: str, key: Path, options: Sequence[str] = (), command: Sequence[str] = ()) -> str:
        """Start a machine that accepts ``key``, and return its address."""
        arguments = ("--volume", f"{self.owner}:/shared", "--env", f"AUTHORIZED_KEY={key_pair.public_half(key)}")
        named = ("--name", name, "--hostname", name, "--network", self.owner, *self._labelled())
        docker("run", "--detach", *named, *SYSTEMD_OPTIONS, *arguments, *options, image, *command)
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        wait_for(f"sshd of {name}", lambda: _runs_sshd(name))
        return docker("inspect", "--format", form, name)[0]

    def remove(self) -> None:
        for words in (("rm", "--force", "--volumes"), ("network", "rm"), ("volume", "rm")):
            listing = ("ps", "--all") if words[0] == "rm" else (words[0], "ls")
            for line in docker(*listing, "--quiet", "--filter", self._label):
                docker(*words, line)

    def _labelled(self) -> tuple[str, str]:
        return "--label", self._label.removeprefix("label=")


def _runs_sshd(name: str) -> bool:
    query = "systemctl is-active ssh ssh.socket || true"  # Ubuntu starts sshd at the first connection
    return "active" in docker("exec", name, "sh", "-c", query)


def ssh_user(home: Path, key: Path) -> Cli:
    """Return a command whose ~/.ssh/config names ``key`` and accepts new host keys."""
    settings = home / "config"
    settings.write_text(
        f"UserKnownHostsFile {home}/known_hosts\nStrictHostKeyChecking accept-new\nIdentityFile {key}\n"
    )
    # OpenSSH reads the configuration in the home directory of /etc/passwd, which a test must not change.
    client = home / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {settings} "$@"\n')
    client.chmod(0o755)
    cli = Cli(home / "state")
    cli.environment["PATH"] = os.pathsep.join([str(client.parent), os.environ["PATH"]])
    return cli
