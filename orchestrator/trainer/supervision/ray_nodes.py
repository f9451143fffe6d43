"""Wait until all hosts have joined Ray's cluster, then execute the command of the arguments in place of this program.

Usage: ``ray_nodes HOSTS SECONDS COMMAND...``. RAY_ADDRESS names the cluster.
"""

import os
import sys
import time


def main(hosts: int, seconds: float, command: list[str]) -> int:
    """Wait for ``hosts`` nodes, at most ``seconds``; return only if they do not come."""
    deadline = time.monotonic() + seconds
    while (joined := _joined()) < hosts and time.monotonic() < deadline:
        time.sleep(0.2)
    if joined >= hosts:
        os.execvp(command[0], command)
    print(f"{joined} of {hosts} hosts have joined Ray's cluster after {seconds:.0f} s", file=sys.stderr)
    return 1


def _joined() -> int:
    """Return the number of hosts that are in the cluster; none while its head does not answer."""
    from ray._raylet import GcsClient  # noqa: PLC0415  absent from the image

    try:
        nodes = GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_node_info(timeout=5)
    except Exception:
        return 0
    return sum(node.state == 0 for node in nodes.values())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
