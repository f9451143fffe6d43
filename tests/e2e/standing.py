"""Machines that one has already: containers that look like hosts one can ssh into, and someone who does."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from orchestrator.ssh import key_pair
from tests.e2e.command import LABEL, Cli, docker, wait_for

AS_SYSTEMD_LIKES = ("--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined", "--cgroupns", "private",
                    "--tmpfs", "/run", "--tmpfs", "/run/lock", "--shm-size", "1g")  # fmt: skip
# The node image as such a machine: with cgroup v2, Docker mounts the hierarchy read-only, and systemd writes there.
AS_MACHINE = ("--entrypoint", "sh")
START_MACHINE = ("-c", "mount -o remount,rw /sys/fs/cgroup 2> /dev/null; exec node-init")


class Standing:
    """Machines of one ``owner``, with a network and a /shared between them."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._label = f"{LABEL}={owner}"

    def prepare(self) -> None:
        """Make the network and the storage, after all that an earlier test may have left."""
        self.remove()
        for kind in ("network", "volume"):
            docker(kind, "create", *self._labelled(), self.owner)

    def start(self, name: str, image: str, key: Path, options: Sequence[str] = (), command: Sequence[str] = ()) -> str:
        """The address of a new machine that lets in who has ``key``."""
        arguments = ("--volume", f"{self.owner}:/shared", "--env", f"AUTHORIZED_KEY={key_pair.public_half(key)}")
        named = ("--name", name, "--hostname", name, "--network", self.owner, *self._labelled())
        docker("run", "--detach", *named, *AS_SYSTEMD_LIKES, *arguments, *options, image, *command)
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
    asked = "systemctl is-active ssh ssh.socket || true"  # Ubuntu's starts when the first one knocks
    return "active" in docker("exec", name, "sh", "-c", asked)


def someone(home: Path, key: Path) -> Cli:
    """Whose ~/.ssh/config has ``key``, and who takes host keys as they come."""
    settings = home / "config"
    settings.write_text(
        f"UserKnownHostsFile {home}/known_hosts\nStrictHostKeyChecking accept-new\nIdentityFile {key}\n"
    )
    # OpenSSH looks for it in the home that /etc/passwd has, which a test must leave alone.
    client = home / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {settings} "$@"\n')
    client.chmod(0o755)
    cli = Cli(home / "state")
    cli.environment["PATH"] = os.pathsep.join([str(client.parent), os.environ["PATH"]])
    return cli
