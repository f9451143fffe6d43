"""A stand-in for the ssh client: it relays ports of this machine, as the real one would ports of the head, with -L.

``python tunnel_stand_in.py '{"9090": 40001}' WORDS ARGUMENTS OF SSH``: port 9090 of the head is port 40001 here; a port
that is not named refuses. Like `ssh HOST cat` it lasts as long as its input; without -L it says WORDS.
"""

import contextlib
import json
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as a program it is there at once
    from tests.unit.conftest import StandIn


def on_path(stand_in: "StandIn", ports: Mapping[int, int], words: str = "") -> None:
    """Put it in place of ssh."""
    command = [sys.executable, __file__, json.dumps({str(there): here for there, here in ports.items()}), words]
    stand_in("ssh", f'exec {shlex.join(command)} "$@"')


def forwards(argv: Sequence[str]) -> Iterator[tuple[int, str]]:
    for option, value in pairwise(argv):
        if option == "-L":
            address, here, _, there = value.split(":")
            assert address == "127.0.0.1"
            yield int(here), there


def relay(listener: socket.socket, target: int | None) -> None:
    while True:
        caller = listener.accept()[0]
        if target is None:
            print("channel 2: open failed: connect failed: Connection refused", file=sys.stderr, flush=True)
            caller.close()
            continue
        called = socket.create_connection(("127.0.0.1", target))
        for source, sink in ((caller, called), (called, caller)):
            threading.Thread(target=pump, args=(source, sink), daemon=True).start()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


def main() -> None:
    ports, forwarded = json.loads(sys.argv[1]), list(forwards(sys.argv[3:]))
    for here, there in forwarded:
        listener = socket.create_server(("127.0.0.1", here))
        threading.Thread(target=relay, args=(listener, ports.get(there)), daemon=True).start()
    sys.stdin.read() if forwarded else print(sys.argv[2])


if __name__ == "__main__":
    main()
