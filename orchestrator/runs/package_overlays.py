"""Overlays with Python packages on the shared storage: look for them, list and remove them."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator import ssh
from orchestrator.cluster import PYTHON, SHARED
from orchestrator.errors import ConfigError, StateError, command
from orchestrator.runs import control, store
from orchestrator.runs.run_record import Run
from orchestrator.schema.bounded_files import shown
from orchestrator.schema.packages import MANIFEST, Overlay, Overlays
from orchestrator.ssh import Session
from orchestrator.state import StateDir, cluster_lock

DIRECTORY = f"{SHARED}/packages"
PROGRAM = "orchestrator.trainer.packages.list_and_remove"


def is_complete(head: Session, overlay: str) -> bool:
    """Tell whether an overlay is installed."""
    return head.run(["test", "-f", f"{overlay}/{MANIFEST}"]).exit_code == 0


def require(head: Session, overlay: str | None) -> None:
    """Check that an overlay, if any, is still installed. Raises StateError if it was removed meanwhile."""
    if overlay and not is_complete(head, overlay):
        raise StateError(f"packages {Path(overlay).name} were removed meanwhile", "run it again to install them")


def list_overlays(head: Session) -> list[Overlay]:
    """List the overlays of a cluster, oldest first."""
    return _manage(head, [])


def last_used(runs: Sequence[Run], overlay: Overlay) -> float | None:
    """Return when the newest of ``runs`` that used ``overlay`` was started; None if none did."""
    return max((run.started for run in runs if run.packages == f"{DIRECTORY}/{overlay.hash}"), default=None)


def remove(state_dir: StateDir, head: Session, name: str | None) -> list[Overlay]:
    """Remove the overlay ``name``, or all of them.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head.
        name: Hash of the overlay, or the beginning of it; None for all.

    Returns:
        The removed overlays.

    Raises:
        ConfigError: There is no such overlay.
        StateError: A run in progress uses it, or packages are being installed.
    """
    with cluster_lock.starting(state_dir):
        overlays = list_overlays(head)
        chosen = [overlay for overlay in overlays if name is None or (name and overlay.hash.startswith(name))]
        if name is not None and len(chosen) != 1:
            what = "several hashes begin with it" if chosen else "no such packages"
            listing = f"{command('packages', state_dir.name)} lists them"
            raise ConfigError([f"packages: {shown(name)}: {what}"], listing)
        _require_unused(state_dir, head, {f"{DIRECTORY}/{overlay.hash}" for overlay in chosen})
        _manage(head, ["--all"] if name is None else [overlay.hash for overlay in chosen])
    return chosen


def _require_unused(state_dir: StateDir, head: Session, overlays: set[str]) -> None:
    """Check that no run in progress uses ``overlays``; one that is not recorded here might. Raises StateError."""
    recorded = {run.id: run.packages for run in store.list_runs(state_dir)}
    for active in control.active(head):
        if active not in recorded or recorded[active] in overlays:
            stop = command(f"stop {active}", state_dir.name)
            raise StateError(f"run {active} is using them", f"wait for it, or {stop}")


def _manage(head: Session, hashes: list[str]) -> list[Overlay]:
    answer = head.must("manage packages", [PYTHON, "-m", PROGRAM, DIRECTORY, *hashes])
    return ssh.parsed(Overlays, answer, head, "list of packages").overlays
