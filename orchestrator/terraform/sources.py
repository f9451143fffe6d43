"""The Terraform root of a provider: this version's files, and their copy in the state directory."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from python_terraform import IsFlagged

from orchestrator import packaged_files, state
from orchestrator.state import StateDir
from orchestrator.terraform import command, provider_cache


def has_root(provider: str) -> bool:
    """Tell whether Terraform creates the nodes of ``provider``."""
    return (packaged_files.directory("terraform") / provider).is_dir()


def is_current(state_dir: StateDir, provider: str) -> bool:
    """Tell whether the last apply used this version's root: another may replace nodes with the same variables."""
    files = _files(provider)
    try:
        same = all((state_dir.terraform / name).read_bytes() == text.encode() for name, text in files.items())
        return same and not _former(state_dir, files)
    except (OSError, ValueError):
        return False


def initialise(state_dir: StateDir, provider: str) -> None:
    """Copy the root and the contract into the state directory and initialise them, unless that is done."""
    files = _files(provider)
    stamp = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    done = command.root(state_dir, provider) / ".terraform" / "initialised"
    if done.is_file() and done.read_bytes() == stamp.encode():
        return
    done.unlink(missing_ok=True)  # an interrupted upgrade may be followed by the older version
    for path in _former(state_dir, files):
        path.unlink()
    for name, text in files.items():
        state.replace(state_dir.terraform / name, text)
    provider_cache.seed(command.root(state_dir, provider), provider, stamp)
    # An older root may have locked another version. Of the same version, init accepts only the locked checksums.
    command.run(state_dir, provider, "init", input=False, upgrade=IsFlagged)
    provider_cache.keep(command.root(state_dir, provider), provider, stamp)
    state.replace(done, stamp)


def _former(state_dir: StateDir, files: Mapping[str, str]) -> list[Path]:
    """Return the files of another version of the root, which would declare resources a second time."""
    directories = {Path(name).parent for name in files}
    copied = [path for directory in directories for path in (state_dir.terraform / directory).glob("*.tf")]
    return [path for path in copied if str(path.relative_to(state_dir.terraform)) not in files]


def _files(provider: str) -> dict[str, str]:
    """Return the files of the provider's root and of the contract, by name."""
    return {
        f"{name}/{path.name}": path.read_text()
        for name in (provider, "contract")
        for path in sorted((packaged_files.directory("terraform") / name).glob("*.tf"))
    }
