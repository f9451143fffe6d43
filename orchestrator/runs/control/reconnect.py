"""Attempts to reach a head that does not answer."""

import time

from orchestrator import progress
from orchestrator.errors import NodesFailed

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, *(30.0,) * 3)  # seconds, together two minutes


class Outage:
    """Attempts in a row to reach a head that does not answer, with growing pauses; runs continue meanwhile."""

    def __init__(self) -> None:
        self._failures = 0

    def end(self) -> None:
        """Note that the head has answered."""
        self._failures = 0

    def wait(self, error: NodesFailed) -> None:
        """Wait before the next attempt, and announce the first. Raises ``error`` after two minutes of them."""
        if self._failures == len(PAUSES):
            raise error
        if not self._failures:
            progress.note(f"{error}\nreconnecting for {sum(PAUSES) / 60:.0f} minutes; runs continue meanwhile")
        time.sleep(PAUSES[self._failures])
        self._failures += 1
