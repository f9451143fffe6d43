"""Notice that a source of items is silent: a registry that does not answer, a build that waits for ever."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def with_silence_timeout(items: Iterable[Item], seconds: float, on_silence: Callable[[float], None]) -> Iterator[Item]:
    """Yield ``items`` as they come, and report silence.

    Args:
        items: Read by a thread.
        seconds: Duration of a silence to report.
        on_silence: Called after each ``seconds`` without an item with the seconds of silence so far; it may raise.

    Returns:
        The items; errors of the source are raised here.
    """
    arrived: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()

    def drain() -> None:
        try:
            for item in items:
                arrived.put((item,))
            arrived.put(None)
        except BaseException as error:  # raised where the items are used
            arrived.put(error)

    threading.Thread(target=drain, daemon=True).start()
    silent_since = time.monotonic()
    while True:
        try:
            item = arrived.get(timeout=seconds)
        except queue.Empty:
            on_silence(time.monotonic() - silent_since)
            continue
        silent_since = time.monotonic()
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item[0]
