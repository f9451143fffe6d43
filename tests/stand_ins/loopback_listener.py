"""A listener on loopback whose connections a thread accepts."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

JOIN_SECONDS = 10.0


@contextmanager
def accepting(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yield the port of a listener, which a thread gives to ``serve``.

    The thread ends before the listener is closed: it could accept a connection of the next one, which has the same
    file descriptor.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_until_shut_down, args=(serve, listener), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(JOIN_SECONDS)


def _until_shut_down(serve: Callable[[socket.socket], None], listener: socket.socket) -> None:
    with suppress(OSError):
        serve(listener)
