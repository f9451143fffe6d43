"""Providers of Terraform that earlier commands have downloaded, with a stand-in for Terraform."""

import shutil
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.terraform import provider_cache, sources
from tests.unit.conftest import StandIn

PROGRAM = Path(".terraform/providers/registry/openstack/program")
INIT = f"""
if test -f {PROGRAM} && test -f .terraform.lock.hcl && grep -q sound {PROGRAM}; then exit 0; fi
echo downloaded >> "$DOWNLOADS"
mkdir -p $(dirname {PROGRAM})
rm -f {PROGRAM}
echo sound > {PROGRAM}
echo hashes > .terraform.lock.hcl
"""


@pytest.fixture
def downloads(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOWNLOADS", str(tmp_path / "downloads"))
    stand_in("terraform", INIT)
    monkeypatch.setenv("PATH", f"{tmp_path / 'stand-ins'}:/usr/bin:/bin")
    return tmp_path / "downloads"


def initialise(cluster: str) -> Path:
    """Initialise a root and return its directory."""
    state_dir = state.for_cluster(cluster)
    sources.initialise(state_dir, "openstack")
    return state_dir.terraform / "openstack"


def count(downloads: Path) -> int:
    return len(downloads.read_text().split())


def test_second_root_downloads_nothing(downloads: Path) -> None:
    first, second = initialise("one"), initialise("two")
    assert count(downloads) == 1
    assert (second / PROGRAM).read_text() == (first / PROGRAM).read_text()
    assert (second / ".terraform.lock.hcl").read_text() == "hashes\n"


def test_lock_file_of_a_cluster_is_not_replaced(downloads: Path) -> None:
    initialise("one")
    root = state.for_cluster("two").terraform / "openstack"
    state.replace(root / ".terraform.lock.hcl", "hashes of before\n")
    initialise("two")
    assert count(downloads) == 2


def test_damaged_copy_is_downloaded_again(downloads: Path) -> None:
    initialise("one")
    (kept,) = (state.cache() / "terraform").iterdir()
    (kept / PROGRAM).unlink()
    (kept / PROGRAM).write_text("damaged")
    assert (initialise("two") / PROGRAM).read_text() == "sound\n"
    shutil.rmtree(kept / ".terraform")
    assert (initialise("three") / PROGRAM).read_text() == "sound\n"
    assert count(downloads) == 3


def test_copies_of_older_roots_are_removed(downloads: Path) -> None:
    root = initialise("one")
    provider_cache.keep(root, "openstack", "f" * 64)
    assert [kept.name[-12:] for kept in (state.cache() / "terraform").iterdir()] == ["f" * 12]


def test_provider_in_a_directory_of_this_machine_is_not_kept(downloads: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / PROGRAM.parent).mkdir(parents=True)
    (root / PROGRAM).symlink_to(tmp_path)
    provider_cache.keep(root, "openstack", "f" * 64)
    assert not (state.cache() / "terraform").exists()


def test_unusable_cache_is_no_obstacle(downloads: Path) -> None:
    state.cache().parent.mkdir(parents=True, exist_ok=True)
    state.cache().write_text("a file")
    assert (initialise("one") / PROGRAM).exists()
