"""State of directories in git, which may be another person's checkout."""

import subprocess
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.runs import provenance
from orchestrator.schema import bounded_files
from tests import builders


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout with one commit."""
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        (tmp_path / "train.py").write_text("print()\n")
        git(tmp_path, *words)
    return tmp_path


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    return subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True).stdout


def test_commit_and_changes_are_named(checkout: Path) -> None:
    assert provenance.commit(checkout) == provenance.Commit(
        commit=git(checkout, "rev-parse", "HEAD").strip(), changed=False
    )
    (checkout / "train.py").write_text("print(1)\n")
    found = provenance.commit(checkout)
    assert found is not None
    assert found.changed


def test_directory_outside_a_checkout_has_no_commit(tmp_path: Path) -> None:
    assert provenance.commit(tmp_path) is None


@pytest.mark.parametrize("names", [("config.json", "src/train.py"), ("src/a/b/c.py", "src/a/d.py"), ("src/a/b/c.py",)])
def test_commit_of_a_script_is_that_of_its_directory(checkout: Path, names: tuple[str, ...]) -> None:
    files = {name: checkout / name.removeprefix("src/") for name in names}
    state_dir, run = state.for_cluster("demo"), builders.run()
    provenance.record(state_dir, builders.cluster(), run, files, [])
    recorded = bounded_files.read_model(state_dir.runs / run.id / provenance.FILE, provenance.Provenance)
    assert recorded.script == provenance.commit(checkout)
    assert recorded.script


@pytest.mark.parametrize("included", [False, True])
def test_programs_that_the_checkout_names_are_not_started(checkout: Path, included: bool) -> None:
    program = f'[filter "x"]\n\tclean = touch {checkout}/started; cat\n'
    if included:
        (checkout / ".git" / "more").write_text(program)
        program = "[include]\n\tpath = more\n"
    with (checkout / ".git" / "config").open("a") as file:
        file.write(program)
    (checkout / ".gitattributes").write_text("* filter=x\n")
    (checkout / "train.py").write_text("print(2)\n")
    head = git(checkout, "rev-parse", "HEAD").strip()
    assert provenance.commit(checkout) == provenance.Commit(commit=head, changed=True)
    assert not (checkout / "started").exists()


def test_filters_of_git_lfs_are_allowed(checkout: Path) -> None:
    git(checkout, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(checkout, "config", "filter.lfs.process", "git-lfs filter-process")
    found = provenance.commit(checkout)
    assert found is not None
    assert not found.changed
