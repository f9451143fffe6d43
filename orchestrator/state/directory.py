"""Locations of the state directory and the cache, and the paths in a cluster's directory."""

import os
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.state.private_files import usable


@dataclass(frozen=True)
class StateDir:
    """The state directory of one cluster; its properties are the paths of its files."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> Path:
        return self.path / "state.json"

    @property
    def terraform(self) -> Path:
        return self.path / "terraform"

    @property
    def terraform_copy(self) -> Path:
        """Return the path of the copy of Terraform's state after the last apply."""
        return self.path / "terraform.tfstate.copy"

    @property
    def ansible(self) -> Path:
        return self.path / "ansible"

    @property
    def key(self) -> Path:
        return self.path / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.path / "ssh" / "known_hosts"

    @property
    def notebook(self) -> Path:
        """Return the path of JupyterLab's password."""
        return self.path / "notebook.json"

    @property
    def monitoring(self) -> Path:
        """Return the path of Grafana's password."""
        return self.path / "monitoring.json"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    def log(self, tool: str) -> Path:
        """Return the log file of ``tool``, and create its directory."""
        directory = self.path / "logs"
        with usable(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return directory / f"{tool}.log"


def root() -> Path:
    """Return the directory of all clusters' directories (XDG Base Directory Specification)."""
    return _base("XDG_STATE_HOME", ".local/state") / "orchestrator"


def cache() -> Path:
    """Return the directory for downloads."""
    return _base("XDG_CACHE_HOME", ".cache") / "orchestrator"


def _base(variable: str, usual: str) -> Path:
    """Return the directory that ``variable`` names; a relative one is ignored, as the specification demands."""
    configured = Path(os.environ.get(variable, ""))
    try:
        base = configured if configured.is_absolute() else Path.home() / usual
        str(base).encode()
    except RuntimeError:
        problem = "no home directory: HOME is not set, and this user has no entry in /etc/passwd"
        raise ConfigError([problem], f"set HOME, or {variable} to a directory of yours") from None
    except UnicodeEncodeError:
        raise ConfigError(
            [f"{os.fsencode(base)!r}: not UTF-8"], f"set {variable} to a directory of your account"
        ) from None
    if "${" in str(base) or os.path.expandvars(base) != str(base):
        problem = f"{base}: Ansible and ssh would replace what follows the $ in paths by an environment variable"
        raise ConfigError([problem], f"set {variable} to a directory without $ in its path")
    return base


def for_cluster(name: str) -> StateDir:
    """Return the state directory of the cluster ``name``, which may not exist."""
    return StateDir(root() / name)


def cluster_names() -> list[str]:
    """Return the names of clusters that are deployed, at least partly."""
    return sorted(path.parent.name for path in root().glob("*/state.json"))
