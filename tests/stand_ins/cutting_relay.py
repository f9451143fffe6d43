"""A relay to an ssh server that closes each connection after a number of bytes, or passes nothing on any more."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.stand_ins import loopback_listener


class Relay:
    """Relay connections to a port of this machine; ``cuts`` has the number of bytes of each connection.

    Once ``silent`` is set, connections stay open and nothing passes, as on a network that this machine has left.
    """

    def __init__(self, port: int, cuts: list[int]) -> None:
        self.port, self.cuts, self.connections, self.silent = port, cuts, 0, threading.Event()

    def serve(self, listener: socket.socket) -> None:
        while True:
            near = listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", self.port))
            remaining = [self.cuts[self.connections] if self.connections < len(self.cuts) else 1 << 60]
            self.connections += 1
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pass, args=(*pair, remaining, self.silent), daemon=True).start()


def _pass(source: socket.socket, target: socket.socket, remaining: list[int], silent: threading.Event) -> None:
    with suppress(OSError):
        while (piece := source.recv(1 << 15)) and remaining[0] > 0:
            if silent.is_set():
                continue
            remaining[0] -= len(piece)
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay_to(port: int, cuts: list[int]) -> Iterator[tuple[int, Relay]]:
    """Yield the relay's own port and the relay."""
    relay = Relay(port, cuts)
    with loopback_listener.accepting(relay.serve) as own_port:
        yield own_port, relay
