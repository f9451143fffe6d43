"""The Terraform root of a provider: this version's files, and their copy in the state directory."""

import hashlib
import json

from python_terraform import IsFlagged

from orchestrator import packaged_files, state
from orchestrator.state import StateDir
from orchestrator.terraform import command


def has_root(provider: str) -> bool:
    """Tell whether Terraform creates the nodes of ``provider``."""
    return (packaged_files.directory("terraform") / provider).is_dir()


def is_current(state_dir: StateDir, provider: str) -> bool:
    """Tell whether the last apply used this version's root: another may replace nodes with the same variables."""
    try:
        return all(
            (state_dir.terraform / name).read_bytes() == text.encode() for name, text in _files(provider).items()
        )
    except (OSError, ValueError):
        return False


def initialise(state_dir: StateDir, provider: str) -> None:
    """Copy the root and the contract into the state directory and initialise them, unless that is done."""
    files = _files(provider)
    stamp = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    done = command.root(state_dir, provider) / ".terraform" / "initialised"
    if done.is_file() and done.read_bytes() == stamp.encode():
        return
    for name, text in files.items():
        state.replace(state_dir.terraform / name, text)
    # An older root may have locked another version. Of the same version, init accepts only the locked checksums.
    command.run(state_dir, provider, "init", input=False, upgrade=IsFlagged)
    state.replace(done, stamp)


def _files(provider: str) -> dict[str, str]:
    """Return the files of the provider's root and of the contract, by name."""
    return {
        f"{name}/{path.name}": path.read_text()
        for name in (provider, "contract")
        for path in sorted((packaged_files.directory("terraform") / name).glob("*.tf"))
    }
