"""Patches of Horovod: small, with a header, numbered, and applied exactly or not at all."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator import packaged_files
from tests.conftest import Missing

PATCHES = sorted(packaged_files.directory("docker").joinpath("horovod").rglob("*.patch"))
HEADER = re.compile(r"What: .+?\nWhy: .+?\nUpstream: .+?\n\n(?=--- a/)", re.DOTALL)
ONE = """What: Answer yes.
Why: A test.
Upstream: none

--- a/answer.py
+++ b/answer.py
@@ -2 +2 @@
-no
+yes
"""


def apply(directory: Path, source: str) -> "subprocess.CompletedProcess[str]":
    """Apply ONE, with a copy of apply.sh, to a directory with this answer.py."""
    patches, sources = directory / "patches", directory / "sources"
    for folder in (patches, sources):
        folder.mkdir()
    shutil.copy(PATCHES[0].with_name("apply.sh"), patches)
    (patches / "0001-one.patch").write_text(ONE)
    (sources / "answer.py").write_text(source)
    return subprocess.run(
        ["sh", patches / "apply.sh", sources], capture_output=True, text=True, check=False, cwd=directory
    )


@pytest.fixture(autouse=True)
def needs_patch(missing: Missing) -> None:
    if shutil.which("patch") is None:
        missing("this machine has no patch")


def test_no_two_patches_have_the_same_number() -> None:
    numbers = [int(path.name[:4]) for path in PATCHES]
    assert len(set(numbers)) == len(numbers) > 0


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: str(path.stem))
def test_page_of_changes_has_a_row_for_each_patch(path: Path) -> None:
    page = packaged_files.PACKAGE.parent / "docs" / "horovod.md"
    assert f"| `{path.stem}` |" in page.read_text()


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: str(path.stem))
def test_patch_header_has_change_reason_and_report(path: Path) -> None:
    assert HEADER.match(path.read_text())


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: str(path.stem))
def test_patch_keeps_only_lines_that_locate_new_ones(path: Path) -> None:
    for hunk in re.split(r"^@@.*\n|^--- .*\n\+\+\+ .*\n", path.read_text(), flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines()
        context = [line for line in lines if not line.startswith(("+", "-"))]
        assert len(context) <= (0 if any(line.startswith("-") for line in lines) else 1)


def test_fitting_patch_changes_the_sources(tmp_path: Path) -> None:
    result = apply(tmp_path, "maybe\nno\n")
    assert (result.returncode, (tmp_path / "sources" / "answer.py").read_text()) == (0, "maybe\nyes\n")


def test_patch_that_does_not_fit_ends_the_build(tmp_path: Path) -> None:
    result = apply(tmp_path, "maybe\nnot\n")
    assert result.returncode == 1
    assert "0001-one.patch does not apply" in result.stderr


def test_patch_that_is_applied_twice_ends_the_build(tmp_path: Path) -> None:
    result = apply(tmp_path, "maybe\nyes\n")
    assert result.returncode == 1
