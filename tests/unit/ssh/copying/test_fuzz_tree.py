"""Any listing of a node gives a tree whose names stay below it, or one error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError, ContractError
from orchestrator.ssh.copying import listing, tree
from tests.stand_ins import fuzz

ROWS = (
    ("d", "755", "4096", "1.5", ""),
    ("d", "755", "4096", "1.25", "sub"),
    ("f", "644", "5", "1700000000.1234567890", "sub/a"),
    ("l", "777", "3", "1.0", "sub/up", "/x"),
    ("l", "777", "3", "1.0", "again", "/x/sub"),
    ("l", "777", "3", "1.0", "out", "/etc"),
)
GOOD = ("\0".join(["/x", *(field for row in ROWS for field in row)]) + "\0").encode()
FIELDS = st.lists(st.sampled_from(["/x", "", "d", "f", "l", "p", "7", "1.5", "..", "a", "a/..", "/a", "/x/a", "-1"]))


def test_valid_listing_is_read() -> None:
    listed = listing.of_listing(GOOD, "x")
    assert sorted(listed.files) == ["again/a", "sub/a"]
    assert listed.files["sub/a"] == tree.Entry("f", 0o644, 5, 1700000000123456789)
    assert listed.left_out == {"out": "it is a link out of the directory, to /etc"}


def test_impossible_size_is_refused() -> None:
    with pytest.raises(ContractError, match="in another form"):
        listing.of_listing(GOOD.replace(b"\x005\x00", b"\x00" + b"9" * 4000 + b"\x00"), "x")


@given(content=fuzz.damaged(GOOD) | FIELDS.map(lambda fields: "\0".join(fields).encode()))
def test_damaged_listing_names_nothing_outside(content: bytes) -> None:
    with fuzz.refused((ContractError, ConfigError)):  # type: ignore[arg-type]
        listed = listing.of_listing(content, "a node lists files of x")
        names = [*listed.files, *listed.directories]
        assert all(not {"..", "."} & set(name.split("/")) and not name.startswith("/") for name in names)
