"""A command that reads text and answers in lines while its standard input stays open."""

import contextlib
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed
from tests.stand_ins import ssh_stand_in
from tests.waiting import until


def test_lines_arrive_while_the_input_is_open() -> None:
    with ssh_stand_in.session() as head:
        lines = head.converse("ask", ["sh", "-c", 'read text; echo "got $text"; read more || echo closed'], "hello\n")
        assert next(lines) == "got hello\n"
        lines.close()


def test_input_is_closed_with_the_iterator(tmp_path: Path) -> None:
    marker = tmp_path / "done"
    with ssh_stand_in.session() as head:
        argv = ["sh", "-c", f"read x; echo begun; cat; touch {marker}"]
        with contextlib.closing(head.converse("ask", argv, "x\n")) as lines:
            assert next(lines) == "begun\n"
            assert not marker.exists()
        assert until(marker.exists)


def test_failed_command_is_an_error_with_its_message() -> None:
    with ssh_stand_in.session() as head, pytest.raises(CommandFailed, match=r"ask: .*\n.*no room"):
        list(head.converse("ask", ["sh", "-c", "read x; echo no room >&2; exit 3"], "x\n"))
