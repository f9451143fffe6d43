"""Print as JSON which ports of an address accept a connection in 2 s: `open_ports.py ADDRESS PORT...`."""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor


def is_open(port: int) -> bool:
    try:
        socket.create_connection((sys.argv[1], port), 2).close()
    except OSError:
        return False
    return True


ports = [int(word) for word in sys.argv[2:]]
with ThreadPoolExecutor(64) as pool:
    print(json.dumps([port for port, reachable in zip(ports, pool.map(is_open, ports), strict=True) if reachable]))
