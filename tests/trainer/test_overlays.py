"""Overlays of packages on a Python of Debian, as in images whose Python is not a virtual environment."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from orchestrator.trainer.packages import overlays


def test_overlay_has_the_packages_of_a_python_that_is_no_venv(tmp_path: Path) -> None:
    """As in images whose Python is that of Debian or Ubuntu, which has several directories of packages."""
    base = sys._base_executable  # type: ignore[attr-defined]
    overlay, program = tmp_path / "overlay", "from orchestrator.trainer.packages import overlays; import pathlib, sys"
    make = [base, "-c", f"{program}\noverlays._create(pathlib.Path(sys.argv[1]), {{}})", str(overlay)]
    subprocess.run(make, check=True, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    code = "import json, site, sys; print(json.dumps([sys.path, site.getsitepackages()]))"
    path, own = json.loads(
        subprocess.run([overlay / "bin" / "python", "-c", code], capture_output=True, check=True).stdout
    )
    assert Path(own[0]) == overlays.packages_directory(overlay)
    images = json.loads(subprocess.run([base, "-c", code], capture_output=True, check=True).stdout)[1]
    assert [directory for directory in images if Path(directory).is_dir() and directory not in path] == []


def test_pip_has_git_for_requirements_that_name_a_repository() -> None:
    assert shutil.which("git")
