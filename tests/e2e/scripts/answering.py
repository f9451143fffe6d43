"""Says which ports of an address answer within two seconds: `answering.py ADDRESS PORT...` prints them as JSON."""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor


def answers(port: int) -> bool:
    try:
        socket.create_connection((sys.argv[1], port), 2).close()
    except OSError:
        return False
    return True


ports = [int(word) for word in sys.argv[2:]]
with ThreadPoolExecutor(64) as pool:
    print(json.dumps([port for port, there in zip(ports, pool.map(answers, ports), strict=True) if there]))
