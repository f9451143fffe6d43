"""A run's log as people read it."""

from collections.abc import Iterator

import pytest

from orchestrator.runs import log_display
from orchestrator.runs.log_display import Line
from orchestrator.schema.log_lines import LONGEST


def shown(*pieces: bytes) -> list[str]:
    return [line.text for line in log_display.lines(pieces)]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"plain words\n", "plain words"),
        (b"[0]<stdout>:epoch 1\n", "epoch 1"),
        (b"[3]<stderr>:warning\n", "[rank 3] warning"),
        (b"[1,0]<stdout>:epoch 1\n", "epoch 1"),
        (b"[1,12]<stderr>:warning\n", "[rank 12] warning"),
        (b"[1,1]<stdout>:half [1,1]<stdout>:a line\n", "[rank 1] half a line"),
        (b"[2024] not a tag\n", "[2024] not a tag"),
    ],
)
def test_rank_0_has_no_prefix_and_others_have_their_number(written: bytes, text: str) -> None:
    assert shown(written) == [text]


def test_pieces_of_lines_that_mpirun_mixed_are_put_together() -> None:
    log = (
        b"[1,0]<stdout>:zero [1,1]<stdout>:one\n[1,1]<stdout>:next [1,0]<stdout>:and [1,0]<stderr>:a warning\n"
        b"[1,0]<stdout>:end\n[1,1]<stdout>:line\n[1,1]<stdout>:no [1,0]<stdout>:last\n"
    )
    assert shown(log) == ["[rank 1] one", "a warning", "zero and end", "[rank 1] next line", "last", "[rank 1] no "]


def test_mixed_line_without_end_is_shown_in_parts() -> None:
    piece = "x" * (LONGEST // 2)
    log = f"[1,1]<stdout>:{piece}[1,0]<stdout>:zero\n".encode() * 3
    assert shown(log) == ["zero", "zero", f"[rank 1] {piece * 3}", "zero"]


def test_letter_split_across_pieces_stays_whole() -> None:
    written = "Größe: 3 µs ✓\n".encode()
    assert shown(*(bytes([byte]) for byte in written)) == ["Größe: 3 µs ✓"]


def test_tag_split_across_pieces_is_recognised() -> None:
    assert shown(b"[1", b"]<std", b"out>:hel", b"lo\n") == ["[rank 1] hello"]


def test_invalid_utf_8_is_replaced() -> None:
    assert shown(b"broken \xff\xfe\n") == ["broken ��"]


def test_carriage_return_ends_a_transient_line() -> None:
    assert list(log_display.lines([b"step 1\rstep 2\repoch 1\n"])) == [
        Line("step 1", lasting=False),
        Line("step 2", lasting=False),
        Line("epoch 1", lasting=True),
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        (b"[1]<stdout>:epoch 1\r\nend\r\n",),
        (b"[1]<stdout>:epoch 1\r", b"\nend\r", b"\n"),
        (b"[1]<stdout>:epoch 1\r[1]<stdout>:\nend\r\n",),  # horovodrun
        (b"[1]<stdout>:epoch 1\r[0]<stdout>:10%\r[1]<stdout>:\n[0]<stdout>:20%\rend\r\n",),
        (b"[1,1]<stdout>:epoch [1,0]<stdout>:10%\r[1,1]<stdout>:1\r", b"\nend\r\n"),
    ],
)
def test_lines_that_end_as_on_windows_last(pieces: tuple[bytes, ...]) -> None:
    lasting = [line.text for line in log_display.lines(pieces) if line.lasting]
    assert lasting == ["[rank 1] epoch 1", "end"]


def test_line_that_ends_as_on_windows_is_shown_once() -> None:
    assert list(log_display.lines([b"epoch 1\r\n"])) == [Line("epoch 1", lasting=True)]


def test_progress_is_shown_before_the_next_piece_comes() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"10%\r"
        raise AssertionError("the next piece was awaited")

    assert next(log_display.lines(pieces())) == Line("10%", lasting=False)


@pytest.mark.parametrize("empty", [b"[0]<stdout>:\n", b"[1]<stdout>:\n", b"[1]<stderr>:50%\r[0]<stderr>:\n"])
def test_empty_line_of_another_source_leaves_progress_transient(empty: bytes) -> None:
    assert not any(line.lasting for line in log_display.lines([b"[1]<stderr>:10%\r" + empty]))


def test_hidden_line_that_ends_as_on_windows_makes_no_earlier_one_last() -> None:
    log = (b"10%\rI tensorflow/core/platform/cpu_feature_guard.cc:227] words\r", b"\n")
    assert list(log_display.lines(log)) == [Line("10%", lasting=False)]


def test_last_line_is_shown_without_its_end() -> None:
    assert list(log_display.lines([b"first\nlast"])) == [Line("first", lasting=True), Line("last", lasting=True)]


def test_empty_lines_are_left_out() -> None:
    assert shown(b"\n\n[0]<stdout>:\n[1]<stdout>:  \nwords\n") == ["words"]


@pytest.mark.parametrize(
    "chatter",
    [
        b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        b"[1]<stderr>:2026-01-01 00:00:00.0: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.",
        b"I tensorflow/core/platform/cpu_feature_guard.cc:227] This TensorFlow binary is optimized",
        b"[1,0]<stderr>:To enable the following instructions: AVX2, in other operations, rebuild TensorFlow",
    ],
)
def test_tensorflows_start_messages_are_hidden(chatter: bytes) -> None:
    assert shown(chatter + b"\nepoch 1\n") == ["epoch 1"]
    assert log_display.without_chatter([chatter.decode().partition(">:")[2] or chatter.decode(), "epoch 1"]) == [
        "epoch 1"
    ]


def test_traceback_of_the_launcher_is_hidden_until_a_ranks_line() -> None:
    log = (
        b"[1]<stderr>:Traceback (most recent call last):\n"
        b"[1]<stderr>:ValueError: the cause\n"
        b"Traceback (most recent call last):\n"
        b'  File "horovod/runner/launch.py", line 1, in run\n'
        b"RuntimeError: Horovod detected that one or more processes exited\n"
        b"[0]<stderr>:ended\n"
    )
    assert shown(log) == ["[rank 1] Traceback (most recent call last):", "[rank 1] ValueError: the cause", "ended"]


def test_line_without_end_is_shown_in_parts() -> None:
    long = b"x" * (LONGEST + 1)
    assert shown(long, long, b"end\n") == [long.decode(), long.decode(), "end"]
