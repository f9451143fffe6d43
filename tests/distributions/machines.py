"""Containers like a distribution's machines, of its own packages, with systemd, sshd and space for a Docker Engine."""

import hashlib
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.command import Cli, docker
from tests.e2e.existing_machines import ExistingMachines, ssh_user

DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
# Debian's keyring package has only Debian's keys; this package has Ubuntu's.
KEYS = f"{UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
KEYS_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
INCLUDED = "apt,systemd-sysv,dbus,openssh-server,sudo,python3,iproute2,ca-certificates"
# Services that only the container's host can run.
MASKED = ("udevd", "modules-load", "sysctl", "networkd", "resolved", "timesyncd", "logind", "oomd")
LAB = """
chroot "$1" useradd --create-home --shell /bin/bash --uid 1234 lab
echo 'lab ALL=(ALL) NOPASSWD: ALL' > "$1/etc/sudoers.d/lab"
rm -f "$1"/etc/ssh/ssh_host_*
"""
# With cgroup version 1, each hierarchy is writable only after a remount, and systemd 256 needs an option.
START = """
for group in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw $group 2> /dev/null; done
ssh-keygen -q -A
install -d -m 700 -o lab -g lab ~lab/.ssh
echo "$AUTHORIZED_KEY" > ~lab/.ssh/authorized_keys && chown lab: ~lab/.ssh/authorized_keys
exec env --ignore-environment SYSTEMD_PROC_CMDLINE=SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 /sbin/init
"""

# Docker Engine needs these privileges; since version 29 it keeps images in containerd.
WITH_DOCKER = ("--cap-add", "NET_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt",
               "systempaths=unconfined", "--volume", "/var/lib/docker", "--volume", "/var/lib/containerd")  # fmt: skip


class Release(NamedTuple):
    """A release as /etc/os-release names it, and its package suite."""

    name: str
    suite: str
    mirror: str

    @property
    def image(self) -> str:
        return f"orchestrator-machine:{self.suite}"


RELEASES = (
    Release("ubuntu 24.04", "noble", UBUNTU),
    Release("debian 13", "trixie", DEBIAN),
    Release("ubuntu 22.04", "jammy", UBUNTU),
    Release("debian 12", "bookworm", DEBIAN),
)


def machine_name(owner: str, release: Release) -> str:
    return f"{owner}-{release.suite}"


@contextmanager
def user_of_machines(owner: str, releases: Sequence[Release], directory: Path) -> Iterator[Cli]:
    """Give a user one fresh machine of each release, on which a deploy installs everything.

    Args:
        owner: Prefix of the machines' names.
        releases: Their releases.
        directory: Where the user keeps key and configuration.

    Yields:
        The user's command.
    """
    key, existing = directory / "id_ed25519", ExistingMachines(owner)
    try:
        existing.prepare()
        for release in releases:
            make(release)
        options = (key, WITH_DOCKER, ("sh", "-c", START))
        addresses = [f"lab@{existing.start(machine_name(owner, each), each.image, *options)}" for each in releases]
        cli = ssh_user(directory, key)
        (cli.state / "cluster.yaml").write_text(
            f"provider: hosts\njupyter: true\nhosts:\n  addresses: [{', '.join(addresses)}]\n  identity: {key}\n"
            "  storage: mounted\n  trainer: container\nmonitoring:\n  grafana: 'off'\n"
        )
        yield cli
    finally:
        existing.remove()


def make(release: Release) -> None:
    """Build the release's image unless the engine has it; raises CalledProcessError."""
    if not docker("image", "ls", "--quiet", release.image):
        assert shutil.which("mmdebstrap"), "mmdebstrap makes the machines: `sudo apt-get install mmdebstrap`"
        with tempfile.TemporaryDirectory() as directory:
            Path(directory).chmod(0o755)  # apt reads keys as another account
            _make(release, Path(directory))


def _make(release: Release, directory: Path) -> None:
    archive = directory / f"{release.suite}.tar"
    hooks = [f"--customize-hook={line}" for line in _hooks()]
    words = ["mmdebstrap", "--variant=minbase", "--quiet", f"--include={INCLUDED}", *hooks, *_trust(release, directory)]
    sources = "\n".join(
        f"deb {release.mirror} {suite} main{' universe' if release.mirror == UBUNTU else ''}"
        for suite in (release.suite, f"{release.suite}-updates")
    )
    subprocess.run([*words, release.suite, str(archive), "-"], input=sources, text=True, check=True)
    docker("import", str(archive), release.image)


def _hooks() -> list[str]:
    masks = [f'ln -s /dev/null "$1/etc/systemd/system/systemd-{unit}.service"' for unit in MASKED]
    return [*masks, *LAB.strip().splitlines()]


def _trust(release: Release, directory: Path) -> list[str]:
    """Return mmdebstrap's option that trusts the release's signature; raises AssertionError for a changed keyring."""
    if release.mirror == DEBIAN:
        return []
    with urllib.request.urlopen(KEYS) as answer:
        package = answer.read()
    assert hashlib.sha256(package).hexdigest() == KEYS_SHA256, f"{KEYS} has another checksum"
    (directory / "keys.deb").write_bytes(package)
    subprocess.run(["dpkg", "--extract", "keys.deb", "keys"], cwd=directory, check=True)
    return [f"--keyring={directory}/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"]
