"""A release is refused before anything changes, and a failed one leaves nothing."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from scripts import release

CHANGES = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / release.VERSION_FILE).write_text('"""Doc."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / release.CHANGELOG).write_text(CHANGES)
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_unreleased_becomes_the_version_below_an_empty_section() -> None:
    changed = release.changelog(CHANGES, "0.2.0", "2026-02-03")
    assert "## Unreleased\n\n## 0.2.0 (2026-02-03)\n\n- New.\n\n## 0.1.0" in changed


def test_changelog_without_changes_is_refused() -> None:
    with pytest.raises(SystemExit, match="nothing under"):
        release.changelog(CHANGES.replace("- New.\n", ""), "0.2.0", "2026-02-03")


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3rc1"])
def test_invalid_version_is_refused(checkout: Path, version: str) -> None:
    with pytest.raises(SystemExit, match=r"expected X\.Y\.Z"):
        release.refuse(checkout, version)


def test_changed_and_untracked_files_are_refused(checkout: Path) -> None:
    release.refuse(checkout, "0.2.0")
    (checkout / "new").write_text("")
    with pytest.raises(SystemExit, match=r"has changes.*\n.*new"):
        release.refuse(checkout, "0.2.0")


def test_existing_tag_is_refused(checkout: Path) -> None:
    subprocess.run(["git", "tag", "v0.2.0"], cwd=checkout, check=True)
    with pytest.raises(SystemExit, match=r"v0\.2\.0 exists"):
        release.refuse(checkout, "0.2.0")


def test_sdist_with_files_that_git_does_not_have_is_refused(checkout: Path, tmp_path: Path) -> None:
    sdist = tmp_path / "x-0.2.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("PKG-INFO", "CHANGELOG.md", ".hypothesis/examples/1"):
            (tmp_path / "member").write_text("x")
            archive.add(tmp_path / "member", f"x-0.2.0/{name}")
    assert release.unknown_files(checkout, sdist) == [".hypothesis/examples/1"]


def test_failed_build_leaves_the_checkout_unchanged(checkout: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):  # pyproject.toml is missing
        release.release(checkout, "0.2.0")
    assert release.git(checkout, "status", "--porcelain") == ""
