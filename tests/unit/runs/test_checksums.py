"""Checksums of a run's data: computed once, stored with the run."""

import hashlib
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.runs import checksums
from orchestrator.runs.datasets import FoundDataset
from tests import builders


def dataset(directory: Path, **contents: str) -> FoundDataset:
    for name, text in contents.items():
        (directory / name).write_text(text)
    return FoundDataset("mnist", directory, list(contents), train=1, test=1, note="")


def line(name: str, text: str) -> str:
    return f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"


def test_list_has_the_format_of_sha256sum(tmp_path: Path) -> None:
    assert checksums.of(dataset(tmp_path, b="two", a="one")) == line("a", "one") + line("b", "two")


def test_unchanged_files_are_read_once(tmp_path: Path) -> None:
    data = dataset(tmp_path, a="one")
    before = checksums.of(data)
    (tmp_path / "a").unlink()
    assert checksums.of(data) == before  # its name on the nodes was derived while the file existed
    assert checksums.of(dataset(tmp_path, a="other")) == line("a", "other")


def test_resumed_run_has_the_checksums_of_the_first(tmp_path: Path) -> None:
    state_dir, old, run = state.for_cluster("demo"), builders.run(id="old"), builders.run(id="new")
    checksums.keep(state_dir, old, dataset(tmp_path, a="one"))
    checksums.keep_same(state_dir, old, run)
    directory = state_dir.runs / "new"
    assert (directory / checksums.FILE).read_text() == line("a", "one")
    assert checksums.Source.model_validate_json((directory / checksums.SOURCE).read_text()).directory == str(tmp_path)


@pytest.mark.parametrize("name", [checksums.FILE, checksums.SOURCE])
def test_damaged_record_is_reported_and_not_given_to_the_resumed_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    state_dir, old, run = state.for_cluster("demo"), builders.run(id="old"), builders.run(id="new")
    checksums.keep(state_dir, old, dataset(tmp_path, a="one"))
    (state_dir.runs / "old" / name).write_bytes(b"\xff")
    checksums.keep_same(state_dir, old, run)
    (other,) = {checksums.FILE, checksums.SOURCE} - {name}
    assert [path.name for path in (state_dir.runs / "new").iterdir()] == [other]
    path = state_dir.runs / "old" / name
    said = "new does not record its data: `orchestrator export new --cluster demo` computes checksums if it needs them"
    assert f"{said}: {path}: line 1: not UTF-8 text (byte 0xff)" in capsys.readouterr().err


def test_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert checksums.of(dataset(tmp_path, a="one")) == line("a", "one")
    assert "checksums of the data set are not cached" in capsys.readouterr().err
