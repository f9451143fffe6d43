"""Random and damaged files of data sets: the inspection succeeds, or raises DataError with the file name."""

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trainer.data import inspect_dataset, sdss
from orchestrator.trainer.data.inspection import DataError
from tests import samples
from tests.stand_ins import fuzz
from tests.unit.trainer.test_inspect_hostile import FILES, header, jpeg, member, png, write_valid

SMALL = {
    "mnist": samples.images_idx(1),
    "cifar10": member("test_batch.bin", 3073) + samples.cifar_records(1) + bytes(511 + 1024),
}


WORD, LONG = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
COLUMNS = st.lists(st.sampled_from([*sdss.FEATURES, "class", "ra", ""]), max_size=12)
CELLS = st.lists(st.sampled_from(["1", "STAR", "-9999", "1e400", '"', ""]) | fuzz.TEXT, max_size=12)
# Valid files with arbitrary sizes, kinds and columns.
WELL_FORMED: dict[str, st.SearchStrategy[bytes]] = {
    "mnist": st.tuples(WORD, WORD, WORD).map(lambda sizes: gzip.compress(struct.pack(">IIII", 0x803, *sizes))),
    "cifar10": st.builds(
        member,
        name=st.sampled_from(["a/data_batch_1.bin", "test_batch.bin", ".bin", "readme.html"]),
        size=st.integers(-(2**40), 2**40) | st.sampled_from([0, 3073]),
        kind=st.binary(min_size=1, max_size=1),
        link=st.sampled_from(["", "test_batch.bin", "/dev/zero"]),
    ).map(lambda block: gzip.compress(block + bytes(4096))),
    "sdss": st.tuples(COLUMNS, st.lists(CELLS, max_size=12)).map(
        lambda table: "\n".join(",".join(row) for row in (table[0], *table[1])).encode(errors="surrogatepass")
    ),
    "imagenet": st.builds(jpeg, st.integers(0, 65535), st.integers(0, 65535)) | st.builds(png, WORD, WORD),
    "records": LONG.map(header),
}

Good = dict[str, tuple[Path, bytes]]


@pytest.fixture(scope="module")
def good_ones(tmp_path_factory: pytest.TempPathFactory) -> Good:
    """Return a data set of each kind with the content of one of its files, which each example overwrites."""
    directories = {dataset: tmp_path_factory.mktemp(dataset) for dataset in FILES}
    for dataset, directory in directories.items():
        write_valid(dataset, directory)
    return {
        dataset: (directory, (directory / FILES[dataset]).read_bytes()) for dataset, directory in directories.items()
    }


def look_at(dataset: str, directory: Path, content: bytes) -> None:
    (directory / FILES[dataset]).write_bytes(content)
    with fuzz.refused(DataError, str(directory), most=len(str(directory)) + 600):
        inspect_dataset.inspect("imagenet" if dataset == "records" else dataset, directory)


@pytest.mark.parametrize("dataset", FILES)
@given(data=st.data())
def test_any_damage_to_a_file_is_named(good_ones: Good, dataset: str, data: st.DataObject) -> None:
    directory, content = good_ones[dataset]
    look_at(dataset, directory, data.draw(fuzz.damaged(content)))


@pytest.mark.parametrize("dataset", FILES)
@given(data=st.data())
def test_any_size_in_a_well_formed_file_is_bounded(good_ones: Good, dataset: str, data: st.DataObject) -> None:
    look_at(dataset, good_ones[dataset][0], data.draw(WELL_FORMED[dataset]))


@pytest.mark.parametrize("dataset", SMALL)
@given(data=st.data())
def test_any_damage_within_an_archive_is_named(good_ones: Good, dataset: str, data: st.DataObject) -> None:
    look_at(dataset, good_ones[dataset][0], gzip.compress(data.draw(fuzz.damaged(SMALL[dataset])), 1))
