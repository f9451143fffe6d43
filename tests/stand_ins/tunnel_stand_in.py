"""A stand-in for the ssh client: it relays ports of this machine, like ssh with -L.

``python tunnel_stand_in.py '{"9090": 40001}' WORDS ARGUMENTS OF SSH``: port 9090 of the head is port 40001 here; other
ports are refused. It ends with its input, like `ssh HOST cat`; without -L it prints WORDS.
"""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a direct run as a program needs no import
    from tests.unit.conftest import StandIn


def on_path(stand_in: "StandIn", ports: Mapping[int, int], words: str = "") -> None:
    """Put the stand-in in place of ssh."""
    command = [sys.executable, __file__, json.dumps({str(remote): local for remote, local in ports.items()}), words]
    stand_in("ssh", f'exec {shlex.join(command)} "$@"')


def forwards(argv: Sequence[str]) -> Iterator[tuple[int, str]]:
    for option, value in pairwise(argv):
        if option == "-L":
            address, local, _, remote = value.split(":")
            assert address == "127.0.0.1"
            yield int(local), remote


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
    for here, listening in forwarded:
        listener = socket.create_server(("127.0.0.1", here))
        threading.Thread(target=relay, args=(listener, ports.get(listening)), daemon=True).start()
    if forwarded:
        subprocess.run(["/bin/sh", "-c", sys.argv[-1]], env={"PATH": os.defpath}, check=False)  # ends with its input
    else:
        print(sys.argv[2])


if __name__ == "__main__":
    main()
