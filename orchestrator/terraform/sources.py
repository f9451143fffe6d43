"""The Terraform root of a provider: what this version has of it, and its copy in the state directory."""

import hashlib
import json

from python_terraform import IsFlagged

from orchestrator import assets, state
from orchestrator.state import Home
from orchestrator.terraform import tool


def has_root(provider: str) -> bool:
    """Whether the nodes of ``provider`` are made by Terraform."""
    return (assets.directory("terraform") / provider).is_dir()


def is_current(place: Home, provider: str) -> bool:
    """Whether the last apply was by the root of this version: another may replace nodes by the same variables."""
    try:
        return all((place.terraform / name).read_bytes() == text.encode() for name, text in _files(provider).items())
    except (OSError, ValueError):
        return False


def initialise(place: Home, provider: str) -> None:
    """Bring the root and the contract into the state directory, unless they are there and initialised."""
    files = _files(provider)
    stamp = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    done = tool.root(place, provider) / ".terraform" / "initialised"
    if done.is_file() and done.read_bytes() == stamp.encode():
        return
    for name, text in files.items():
        state.replace(place.terraform / name, text)
    # An older root may have locked another version. Of the same one, init accepts only what it locked.
    tool.run(place, provider, "init", input=False, upgrade=IsFlagged)
    state.replace(done, stamp)


def _files(provider: str) -> dict[str, str]:
    """The files of the provider's root and of the contract, by name."""
    return {
        f"{name}/{path.name}": path.read_text()
        for name in (provider, "contract")
        for path in sorted((assets.directory("terraform") / name).glob("*.tf"))
    }
