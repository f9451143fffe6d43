"""Detect a deploy with nothing to configure: Ansible's input is the same as last time, and no node has changed."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator import packaged_files, ssh
from orchestrator.cluster import Cluster
from orchestrator.state import StateDir

NOTE = "/var/lib/orchestrator/configured"  # `current_configuration_record` of the role that writes the file
LARGE = 1 << 20  # bytes; larger files are compared by size and time only


def fingerprint(inventory: Mapping[str, Any]) -> str:
    """Return a checksum of Ansible's input: the inventory, the files that it names, the roles and the rules."""
    digest = hashlib.sha256(json.dumps(inventory, sort_keys=True).encode())
    named = [Path(value) for value in inventory["all"]["vars"].values() if str(value).startswith("/")]
    for path in [*named, *_sources()]:
        if path.is_file():
            digest.update(f"{path.name}\0".encode())
            digest.update(_content(path))
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for name in ("ansible", "infra"):
        yield from sorted(packaged_files.directory(name).rglob("*"))


def _content(path: Path) -> bytes:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}".encode() if status.st_size > LARGE else path.read_bytes()


def are_nodes_unchanged(state_dir: StateDir, cluster: Cluster) -> bool:
    """Return whether every node still has the files and runs the units that the last deploy noted."""
    script = (packaged_files.directory("ansible") / "roles/current_configuration/files/verify_checksums.sh").read_text()

    def ask(name: str) -> bool:
        with ssh.connect(state_dir, cluster, name) as session:
            return session.run(["sudo", "sh", "-c", f"{script}\nverify_checksums {NOTE}"]).exit_code == 0

    answers, silent = ssh.on_every_node(cluster, ask)
    return not silent and all(answers.values())
