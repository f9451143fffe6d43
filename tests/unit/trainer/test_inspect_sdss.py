"""SDSS table: rows that are read, held out or refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer.data import inspect_dataset, sdss
from orchestrator.trainer.data.inspection import DataError
from tests import samples
from tests.samples import sky

FORTY = [sky(number) for number in range(40)]


def test_tenth_of_the_rows_is_held_out(tmp_path: Path) -> None:
    dataset = inspect_dataset.inspect("sdss", samples.table(tmp_path / "sky.csv", FORTY))
    assert (dataset.files, dataset.train, dataset.test) == (["sky.csv"], 36, 4)
    assert dataset.note == "every 10th row is used for the test, the others for training"


def test_features_are_read_by_column_name(tmp_path: Path) -> None:
    backwards = [dict(reversed(row.items())) for row in FORTY]
    train, held_out = sdss.read(samples.table(tmp_path / "sky.csv", backwards))
    assert train[7] == ([7.0, 8.0, 9.0, 10.0, 11.0, 0.007], 1)  # a galaxy
    assert [features[0] for features, _ in held_out] == [9.0, 19.0, 29.0, 39.0]
    assert sorted(features[0] for features, _ in train + held_out) == list(range(40))


def test_tables_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    samples.table(tmp_path / "b.CSV", FORTY[15:])
    samples.table(tmp_path / "a.csv", FORTY[:15])
    (tmp_path / "README.txt").touch()
    assert inspect_dataset.inspect("sdss", tmp_path).files == ["a.csv", "b.CSV"]
    together = sdss.read(tmp_path)
    assert together == sdss.read(samples.table(tmp_path / "one" / "sky.csv", FORTY))


def test_hidden_files_of_macos_are_not_tables(tmp_path: Path) -> None:
    (samples.table(tmp_path / "sky.csv", FORTY) / "._sky.csv").write_bytes(b"\x00\x05\x16\x07\xff")
    assert inspect_dataset.inspect("sdss", tmp_path).files == ["sky.csv"]


@pytest.mark.parametrize("above", ["#Table1\n", "\ufeff", "\n"])
def test_titles_above_the_header_are_skipped(tmp_path: Path, above: str) -> None:
    assert inspect_dataset.inspect("sdss", samples.table(tmp_path / "sky.csv", FORTY, above)).train == 36


def holding(number: int, **values: str) -> Callable[[Path], object]:
    """Return a function that writes a table in which one row has these values."""
    rows = [*FORTY[:number], {**FORTY[number], **values}, *FORTY[number + 1 :]]
    return lambda directory: samples.table(directory / "sky.csv", rows)


def without(column: str) -> Callable[[Path], object]:
    rows = [{key: value for key, value in row.items() if key != column} for row in FORTY]
    return lambda directory: samples.table(directory / "sky.csv", rows)


def cut(directory: Path) -> None:
    samples.table(directory / "sky.csv", FORTY)
    path = directory / "sky.csv"
    path.write_text(path.read_text()[:-15])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (without("redshift"), r"sky\.csv: row 1: no column redshift in the header"),
        (without("class"), r"sky\.csv: row 1: no column class in the header"),
        (holding(12, **{"class": "COMET"}), r"sky\.csv: row 14, column class: 'COMET' is none of STAR, GALAXY, QSO"),
        (holding(0, g="bright"), r"sky\.csv: row 2, column g: 'bright' is no measurement: correct or remove the row"),
        (holding(39, redshift=""), r"sky\.csv: row 41, column redshift: '' is no measurement"),
        (holding(3, u="nan"), r"sky\.csv: row 5, column u: 'nan' is no measurement"),
        (holding(3, u="1e200"), r"sky\.csv: row 5, column u: '1e200' is no measurement"),
        (holding(3, redshift="-1000001"), r"sky\.csv: row 5, column redshift: '-1000001' is no measurement"),
        (holding(3, z="-9999"), r"sky\.csv: row 5, column z: '-9999' is no measurement"),
        (cut, r"sky\.csv: row 41: 8 cells, expected 10 as in the header: correct or remove the row"),
        (
            lambda directory: (directory / "sky.csv").touch(),
            r"sky\.csv: row 0: no column u, g, r, i, z, redshift, class",
        ),
        (lambda directory: (directory / "sky.csv").write_bytes(b"\x89PNG\r\n\xff"), r"sky\.csv: not a table in CSV"),
        (
            lambda directory: (directory / "sky.txt").touch(),
            r"no SDSS table here: a \.csv with u, g, r, i, z, redshift",
        ),
        (lambda directory: samples.table(directory / "sky.csv", FORTY[:9]), "9 rows, every 10th of them for the test"),
    ],
)
def test_incomplete_table_is_refused(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    make(tmp_path)
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("sdss", tmp_path)
