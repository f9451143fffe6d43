"""A tunnel that a command holds open until Ctrl-C."""

import sys
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from orchestrator import progress
from orchestrator.cluster import Cluster
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from orchestrator.state import StateDir


@contextmanager
def held_tunnel(
    state_dir: StateDir, cluster: Cluster, ports: Mapping[Service, int], seconds: float, browse: str | None
) -> Iterator[None]:
    """Open a tunnel, run the body of the ``with``, which prints addresses, and hold the tunnel open until Ctrl-C.

    Ctrl-C is how the command ends, so it is no error from the first line of output on.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        ports: Ports of this machine by service.
        seconds: Seconds to wait for an answer of the first service.
        browse: Address to open in the browser, if any.

    Raises:
        CommandFailed: The tunnel cannot be opened, or breaks.
        NodesFailed: The first service does not answer in time.
    """
    with tunnel.open_tunnel(state_dir, cluster, ports, seconds) as open_tunnel, suppress(KeyboardInterrupt):
        yield
        sys.stdout.flush()
        progress.note("Ctrl-C closes the tunnel")
        if browse and not webbrowser.open(browse):
            progress.note("this machine has no browser")
        open_tunnel.wait(None)
