"""Grafana for local nodes: a container in the head's network namespace, because these nodes have no Docker.

Its image is taken from this machine's Docker Engine, or pulled once. Terraform makes the container. Its files reach
it in a tar archive, which holds the password and is readable only by its owner.
"""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator import packaged_files, progress, state
from orchestrator.config import Config, Monitoring, stored
from orchestrator.docker import images
from orchestrator.docker.engine import Engine
from orchestrator.services import password_file
from orchestrator.services.password_file import Secret
from orchestrator.state import Record, StateDir

ACCOUNT = 472  # Grafana's account in its image
SILENT_SECONDS = 15.0  # for a registry that does not answer
NONE = {"image": "", "files": "", "digest": "", "password": ""}
LACK_OF = "this machine's Docker Engine has no image {} and cannot pull it"
LACK = (
    LACK_OF + " ({}): load one by `docker load`, `docker pull` or"
    " `docker build`, under that name or the one in monitoring.grafana_image, and deploy again"
)
MAX_REASON = 200  # characters of the message of a registry, or of a proxy before it
UNUSUAL = re.compile(r"[^\w .,:/@()-]")  # a registry's message passes through JSON and Ansible's templates
# Grafana complains about each directory of provisioning that does not exist.
EMPTY = ("provisioning/alerting", "provisioning/notifiers", "provisioning/plugins")


def variables(docker: Engine, config: Config) -> dict[str, str]:
    """Return the variables of Terraform's root `local` for the container; :data:`NONE` without an image."""
    image = _image(docker, config.monitoring) if _is_enabled(config.monitoring) else None
    if image is None:
        return NONE
    state_dir = state.for_cluster(config.name)
    return {
        "image": image,
        "files": str(_archive(state_dir)),
        "digest": _digest(),
        "password": _password_time(state_dir),
    }


def prepare(docker: Engine, record: Record, state_dir: StateDir) -> None:
    """Pull the image if the engine does not have it, and write the container's files.

    A failed pull is repeated only for another image, or if ``monitoring.grafana`` is "on".

    Args:
        docker: The Docker Engine.
        record: Record of the deployment.
        state_dir: State directory of the cluster.
    """
    monitoring = stored(record.config).monitoring
    if not _is_enabled(monitoring):
        return
    reference = _reference(monitoring)
    has_failed = _lack(state_dir).startswith(LACK_OF.format(reference))
    if not _image(docker, monitoring) and (monitoring.grafana == "on" or not has_failed):
        _pull(docker, reference, state_dir)
    if _image(docker, monitoring):
        _write(state_dir)


def for_ansible(state_dir: StateDir, record: Record) -> dict[str, Any]:
    """Return variables of the role `grafana`: whether Terraform creates its container, or the reason why not."""
    if record.variables.get("local", {}).get("grafana", NONE)["image"]:
        return {"monitoring_grafana_by_terraform": True}
    return {"monitoring_grafana_lack": _lack(state_dir)} if _is_enabled(stored(record.config).monitoring) else {}


def _is_enabled(monitoring: Monitoring) -> bool:
    return monitoring.enabled and monitoring.grafana != "off"


def _reference(monitoring: Monitoring) -> str:
    return monitoring.grafana_image or (_infra() / "image.txt").read_text().strip()


def _image(docker: Engine, monitoring: Monitoring) -> str | None:
    """Return the id of the image, if it exists. A manually loaded image has its name, but not its registry's digest."""
    reference = _reference(monitoring)
    return images.find(docker, reference) or images.find(docker, reference.partition("@")[0])


def _pull(docker: Engine, reference: str, state_dir: StateDir) -> None:
    """Pull the image, or write down why that failed."""
    with progress.step(f"Pulling {reference} (once)") as step:
        reason = images.pull(docker, reference, step.detail, SILENT_SECONDS)
        step.detail(reason)
    state.replace(_lack_file(state_dir), LACK.format(reference, UNUSUAL.sub("", reason)[:MAX_REASON]) if reason else "")


def _lack_file(state_dir: StateDir) -> Path:
    return state_dir.terraform / "grafana.lack"


def _lack(state_dir: StateDir) -> str:
    """Return why the last pull failed; "" if it succeeded or there was none."""
    try:
        return _lack_file(state_dir).read_text().strip()
    except OSError:
        return ""


def _infra() -> Path:
    return packaged_files.directory("infra") / "grafana"


def _archive(state_dir: StateDir) -> Path:
    return state_dir.terraform / "grafana.tar"


def _digest() -> str:
    """Return twelve hexadecimal digits of a hash over the container's files, without the password."""
    content = hashlib.sha256()
    for path in _sources():
        content.update(f"{path.relative_to(_infra())}\0".encode() + path.read_bytes())
    return content.hexdigest()[:12]


def _password_time(state_dir: StateDir) -> str:
    """Return when the password was set, which reveals nothing about it."""
    return str(state_dir.monitoring.stat().st_mtime_ns) if state_dir.monitoring.exists() else ""


def _sources() -> Iterator[Path]:
    yield from sorted(path for path in _infra().rglob("*") if path.suffix in (".ini", ".json", ".yml"))


def _directory(archive: tarfile.TarFile, name: str, account: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.uid = tarfile.DIRTYPE, 0o755, account
    archive.addfile(member)


def _file(archive: tarfile.TarFile, name: str, content: bytes, account: int = 0, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uid = len(content), mode, account
    archive.addfile(member, io.BytesIO(content))


def _write(state_dir: StateDir) -> None:
    """Write the archive. Grafana's account owns its data directory and the password, root owns everything else."""
    path = _archive(state_dir)
    with state.usable(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            _directory(archive, "data", ACCOUNT)
            for name in EMPTY:
                _directory(archive, name)
            for source in _sources():
                _file(archive, str(source.relative_to(_infra())), source.read_bytes())
            secret = password_file.read(state_dir.monitoring, Secret)
            _file(archive, "password", secret.password.encode() if secret else b"", ACCOUNT, 0o400)
