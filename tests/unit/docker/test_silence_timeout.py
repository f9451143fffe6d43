"""Iterate over items of another source and report its silence."""

import threading
from collections.abc import Iterator

import pytest

from orchestrator.docker import silence_timeout


def never_silent(seconds: float) -> None:
    pytest.fail(f"silent for {seconds} s")


def test_items_keep_their_order_and_no_silence_is_reported() -> None:
    assert list(silence_timeout.with_silence_timeout(range(5), 60.0, never_silent)) == [0, 1, 2, 3, 4]


def test_silence_is_reported_with_its_length_until_the_next_item() -> None:
    silences: list[float] = []
    goes_on = threading.Event()

    def items() -> Iterator[str]:
        yield "first"
        goes_on.wait()
        yield "last"

    def on_silence(seconds: float) -> None:
        silences.append(seconds)
        if len(silences) == 3:
            goes_on.set()

    assert list(silence_timeout.with_silence_timeout(items(), 0.02, on_silence)) == ["first", "last"]
    assert silences[:3] == sorted(silences[:3])
    assert silences[0] >= 0.02


def test_callback_may_end_the_wait() -> None:
    never = threading.Event()

    def items() -> Iterator[str]:
        never.wait(60)
        yield "too late"

    def on_silence(seconds: float) -> None:
        raise TimeoutError(seconds)

    with pytest.raises(TimeoutError):
        list(silence_timeout.with_silence_timeout(items(), 0.02, on_silence))
    never.set()


def test_error_of_the_source_is_raised_at_the_consumer() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    watched = silence_timeout.with_silence_timeout(items(), 60.0, never_silent)
    assert next(watched) == 1
    with pytest.raises(ZeroDivisionError):
        next(watched)
