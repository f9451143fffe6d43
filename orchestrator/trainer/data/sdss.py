"""Stars, galaxies and quasars of the Sloan Digital Sky Survey: a table in CSV, as SkyServer's SQL search returns it.

Features are the measurements of the object itself: its magnitudes in five bands, and its redshift. The rest of the
table is left out: objid, run, rerun, camcol, field (of the image) and specobjid, plate, mjd, fiberid (of the spectrum)
number the survey's own work, and since plates are drilled for targets of one kind, they reveal classes without
describing the sky; ra and dec are the object's position, which makes it neither star nor quasar. The colours (u-g, g-r,
r-i, i-z) as further features gained nothing: a network of two layers had 98.3 to 98.8 % of the held-out rows right with
them, 98.5 to 99.0 % without.
"""

import csv
import io
import itertools
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from orchestrator.trainer.data import bounded_reading
from orchestrator.trainer.data.inspection import DataError, DatasetFiles

FEATURES = ("u", "g", "r", "i", "z", "redshift")
CLASSES = ("STAR", "GALAXY", "QSO")
HELD_OUT = 10  # every tenth row
MAX_ROWS = 1_000_000  # of all tables together, which are held in memory
MAX_LINE, MAX_SHOWN = 1 << 20, 80  # characters
NOT_MEASURED = -9999.0  # the survey's value for a missing measurement
MAX_VALUE = 1e6  # of a measurement, up to its sign; the square of 1e200 is infinite, and so is the deviation

Row = tuple[list[float], int]  # features in the order of FEATURES, index in CLASSES


def inspect(directory: Path) -> DatasetFiles:
    train, test = read(directory)
    names = [path.name for path in _tables(directory)]
    if not test:
        raise DataError(f"{directory}: {len(train)} rows, every {HELD_OUT}th of them for the test: too few")
    note = f"every {HELD_OUT}th row is used for the test, the others for training"
    return DatasetFiles(names, len(train), len(test), note)


def read(directory: Path) -> tuple[list[Row], list[Row]]:
    """Read the training rows and the held-out rows: every tenth of all tables, in the order of their names.

    So the same rows are held out whenever and wherever the tables are read, and they come from all over the survey,
    since neighbouring rows are neighbours in the sky.

    Raises:
        DataError: A table is incomplete.
    """
    rows: list[Row] = []
    for path in _tables(directory):
        rows += _rows(path, MAX_ROWS - len(rows))
    held_out = rows[HELD_OUT - 1 :: HELD_OUT]
    del rows[HELD_OUT - 1 :: HELD_OUT]
    return rows, held_out


def _tables(directory: Path) -> list[Path]:
    visible = (path for path in directory.iterdir() if not path.name.startswith("."))  # macOS adds ._NAME.csv
    tables = sorted(path for path in visible if path.suffix.lower() == ".csv")
    if not tables:
        raise DataError(f"{directory}: no SDSS table here: a .csv with {', '.join(FEATURES)} and class is missing")
    return tables


def _rows(path: Path, max_rows: int) -> list[Row]:
    try:
        with io.TextIOWrapper(bounded_reading.open_file(path), "utf-8-sig", newline="") as file:
            lines = csv.reader(_lines(path, file))
            # Skip titles: SkyServer writes "#Table1" above its tables.
            header = next((line for line in lines if line and not line[0].startswith("#")), [])
            indices = _column_indices(f"{path}: row {lines.line_num}", header)
            rows = [
                _row(f"{path}: row {lines.line_num}", line, indices, len(header))
                for line in itertools.islice(filter(None, lines), max_rows + 1)
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a table in CSV ({error})") from None
    if len(rows) > max_rows:
        raise DataError(f"{path}: the tables have more than {MAX_ROWS:,} rows: leave some out")
    return rows


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE), ""), 1):
        if len(line) == MAX_LINE:
            raise DataError(f"{path}: row {number}: more than {MAX_LINE:,} characters, expected a table in CSV")
        yield line


def _column_indices(position: str, header: list[str]) -> list[int]:
    """Return the indices of the columns of FEATURES, then of the class."""
    columns = (*FEATURES, "class")
    missing = [column for column in columns if column not in header]
    if missing:
        raise DataError(f"{position}: no column {', '.join(missing)} in the header")
    duplicates = [column for column in columns if header.count(column) > 1]
    if duplicates:
        raise DataError(f"{position}: column {', '.join(duplicates)} occurs more than once in the header")
    return [header.index(column) for column in columns]


def _row(position: str, values: list[str], indices: list[int], cells: int) -> Row:
    if len(values) != cells:
        raise DataError(
            f"{position}: {len(values)} cells, expected {cells} as in the header: correct or remove the row"
        )
    name = values[indices[-1]]
    if name not in CLASSES:
        raise DataError(f"{position}, column class: {_shorten(name)} is none of {', '.join(CLASSES)}")
    numbers = zip(FEATURES, indices[:-1], strict=True)
    return [_number(position, column, values[index]) for column, index in numbers], CLASSES.index(name)


def _number(position: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_VALUE or value == NOT_MEASURED:  # refuses nan, too
        raise DataError(f"{position}, column {column}: {_shorten(text)} is no measurement: correct or remove the row")
    return value


def _shorten(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")
