"""Copies of Terraform's providers, of 100 MB and more, which new roots use in place of another download.

`terraform init` compares a copy with the checksums in the lock file, and downloads the provider if they differ.
TF_PLUGIN_CACHE_DIR would not help: Terraform ignores it without a lock file, and no two commands may write to it.
"""

import platform
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from orchestrator import state
from orchestrator.schema import atomic_write
from orchestrator.schema.hard_links import link_or_copy
from orchestrator.terraform.command import program

PROVIDERS, LOCK = Path(".terraform/providers"), ".terraform.lock.hcl"


def seed(root: Path, provider: str, stamp: str) -> None:
    """Copy the providers into a root that was never initialised, if they were kept."""
    kept = _directory(provider, stamp)
    if (root / LOCK).exists() or (root / PROVIDERS).exists() or not kept.is_dir():
        return
    try:
        shutil.copytree(kept / PROVIDERS, root / PROVIDERS, copy_function=link_or_copy)
        shutil.copyfile(kept / LOCK, root / LOCK)
    except (OSError, shutil.Error):  # another command removed them, or the disk is full: init then downloads them
        shutil.rmtree(root / PROVIDERS, ignore_errors=True)


def keep(root: Path, provider: str, stamp: str) -> None:
    """Keep the providers that init has downloaded, and remove those of other versions. A failure is no error."""
    kept = _directory(provider, stamp)
    with suppress(OSError, shutil.Error):
        if kept.is_dir() or not _is_downloaded(root):
            return
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in atomic_write.leftovers(kept):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=atomic_write.unfinished_prefix(kept)) as temporary:
            copy = Path(temporary) / "copy"
            shutil.copytree(root / PROVIDERS, copy / PROVIDERS, copy_function=link_or_copy)
            shutil.copyfile(root / LOCK, copy / LOCK)
            copy.rename(kept)
        for other in set(kept.parent.glob(f"{_prefix(provider)}*")) - {kept}:
            shutil.rmtree(other, ignore_errors=True)


def _is_downloaded(root: Path) -> bool:
    """Return whether the root has providers of its own. Those in a directory of this machine are linked to."""
    paths = list((root / PROVIDERS).rglob("*"))
    return bool(paths) and not any(path.is_symlink() for path in paths)


def _directory(provider: str, stamp: str) -> Path:
    """Return the directory for the providers of a root, which ``stamp`` identifies."""
    return state.cache() / "terraform" / f"{_prefix(provider)}{stamp[:12]}"


def _prefix(provider: str) -> str:
    """Return how the names begin. Terraform and OpenTofu have registries of their own, and a machine its programs."""
    return f"{provider}-{Path(program()).name}-{platform.machine()}-"
