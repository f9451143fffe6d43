"""Items that come from elsewhere, watched for silence."""

import threading
from collections.abc import Iterator

import pytest

from orchestrator.docker import stall


def never_silent(seconds: float) -> None:
    pytest.fail(f"silent for {seconds} s")


def test_items_come_through_in_order_and_no_one_is_told_of_silence() -> None:
    assert list(stall.with_silence_timeout(range(5), 60.0, never_silent)) == [0, 1, 2, 3, 4]


def test_silence_is_told_with_its_length_until_the_next_item_comes() -> None:
    heard: list[float] = []
    goes_on = threading.Event()

    def items() -> Iterator[str]:
        yield "first"
        goes_on.wait()
        yield "last"

    def on_silence(seconds: float) -> None:
        heard.append(seconds)
        if len(heard) == 3:
            goes_on.set()

    assert list(stall.with_silence_timeout(items(), 0.02, on_silence)) == ["first", "last"]
    assert heard[:3] == sorted(heard[:3])
    assert heard[0] >= 0.02


def test_whoever_has_waited_long_enough_may_end_the_wait() -> None:
    never = threading.Event()

    def items() -> Iterator[str]:
        never.wait(60)
        yield "too late"

    def on_silence(seconds: float) -> None:
        raise TimeoutError(seconds)

    with pytest.raises(TimeoutError):
        list(stall.with_silence_timeout(items(), 0.02, on_silence))
    never.set()


def test_an_error_on_the_way_is_raised_where_the_items_are_used() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    watched = stall.with_silence_timeout(items(), 60.0, never_silent)
    assert next(watched) == 1
    with pytest.raises(ZeroDivisionError):
        next(watched)
