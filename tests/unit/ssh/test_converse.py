"""A command that reads a text and answers in lines, while its standard input stays open."""

import contextlib
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed
from tests.stand_ins import ssh_stand_in
from tests.waiting import until


def test_lines_come_while_the_input_is_open() -> None:
    with ssh_stand_in.session() as head:
        lines = head.converse("ask", ["sh", "-c", 'read text; echo "got $text"; read more || echo closed'], "hello\n")
        assert next(lines) == "got hello\n"
        lines.close()


def test_the_input_is_closed_with_the_iterator(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with ssh_stand_in.session() as head:
        argv = ["sh", "-c", f"read x; echo begun; cat; touch {done}"]
        with contextlib.closing(head.converse("ask", argv, "x\n")) as lines:
            assert next(lines) == "begun\n"
            assert not done.exists()
        assert until(done.exists)


def test_a_command_that_fails_is_an_error_with_its_words() -> None:
    with ssh_stand_in.session() as head, pytest.raises(CommandFailed, match=r"ask: .*\n.*no room"):
        list(head.converse("ask", ["sh", "-c", "read x; echo no room >&2; exit 3"], "x\n"))
