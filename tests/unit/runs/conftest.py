"""The project of a user, from which scripts are sent."""

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a directory with a script, a module and files that users do not want to send."""
    root = tmp_path / "project"
    for name in ("train.py", "model/net.py", ".git/config", ".env", ".venv/bin/python", "model/__pycache__/net.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("pass\n")
    monkeypatch.chdir(root)
    return root
