"""docs/licences.md names the licence of everything that a deploy installs."""

import re
import shutil
from pathlib import Path

import pytest

from orchestrator import packaged_files
from scripts import get_terraform, write_licences

# Programs of other makers, by their word in the roles, the Dockerfile and scripts.
NAMED = (
    "Terraform",
    "OpenTofu",
    "ansible-core",
    "Docker Engine",
    "Open MPI",
    "Horovod",
    "TensorFlow",
    "JupyterLab",
    "Prometheus",
    "Alertmanager",
    "node_exporter",
    "Grafana",
    "NVIDIA's driver",
    "container toolkit",
    "dcgm-exporter",
    "cuDNN",
    "CUDA",
    "NCCL",
)


def test_every_locked_package_has_a_row_with_its_licence_and_use() -> None:
    """If this fails, run `python -m scripts.write_licences`."""
    table = write_licences.PAGE.read_text().partition(write_licences.HEADING)[2].splitlines()
    uses = write_licences.locked()
    assert len(uses) > 200
    assert [line for line in table if not re.fullmatch(r"\| \S+ \| \S.* \| \S.* \|", line)] == []
    assert {line.split(" | ")[0][2:]: line.split(" | ")[2][:-2] for line in table} == {
        name: ", ".join(names_of_uses) for name, names_of_uses in uses.items()
    }


def test_every_other_program_is_named_with_a_licence() -> None:
    page = write_licences.PAGE.read_text().partition(write_licences.HEADING)[0]
    named = {
        first for first, second in re.findall(r"^\| (.+?) \| (.+?) \| .*\|$", page, re.MULTILINE) if second.strip("- ")
    }
    assert [name for name in NAMED if not any(name in row for row in named)] == []
    assert f"Terraform {get_terraform.VERSION}" in page


def test_package_of_unknown_licence_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, root = tmp_path / "licences.md", tmp_path / "root"
    page.write_text(write_licences.HEADING)
    for folder in ("requirements", "docker"):
        shutil.copytree(packaged_files.PACKAGE.parent / folder, root / folder)
    (root / "docker" / "horovod.txt").write_text("never-heard-of==1.0 --hash=sha256:0\n")
    monkeypatch.setattr(write_licences, "PAGE", page)
    monkeypatch.setattr(write_licences, "ROOT", root)
    with pytest.raises(SystemExit, match=r"no licence known of .*never-heard-of"):
        write_licences.page([])
