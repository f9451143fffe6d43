"""Program that tests connections on a host: listen on a free port, and connect to those of the other hosts.

It takes its own address as argument, prints its port, reads the peers (ADDRESS:PORT) from one line, and prints the
result of each. It ends with its standard input, or after LONGEST seconds. It needs Python 3.6, no package and no root.
"""

import errno
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

LONGEST = 60
ATTEMPT = 4.0  # seconds in which the kernel asks three times for the connection


def accept(listener: socket.socket) -> None:
    """Accept connections without end."""
    while True:
        listener.accept()[0].close()


def connect(peer: str) -> str:
    """Connect to a peer and return it with OK, or with the name of the kernel's error."""
    address, port = peer.split(":")
    try:
        socket.create_connection((address, int(port)), ATTEMPT).close()
    except OSError as error:
        return f"{peer} {errno.errorcode.get(error.errno or errno.ETIMEDOUT, 'EIO')}"
    return f"{peer} OK"


def answer(words: str) -> None:
    """Write a line that reachability.py tells from those of login shells and from one that is not complete."""
    sys.stdout.write(f"test {words} end\n")
    sys.stdout.flush()


def main() -> None:
    """Run the test."""
    signal.alarm(LONGEST)
    listener = socket.socket()
    listener.bind((sys.argv[1], 0))
    listener.listen(128)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    answer(f"port {listener.getsockname()[1]}")
    peers = sys.stdin.readline().split()
    with ThreadPoolExecutor(len(peers) or 1) as pool:
        for line in pool.map(connect, peers):
            answer(line)
    sys.stdin.read()  # the others may still connect to this host


if __name__ == "__main__":
    main()
