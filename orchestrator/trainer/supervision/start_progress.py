"""Watch the start of a run's ranks: each has a record once its wrapper runs. Progress is printed if it takes long."""

import time
from contextlib import suppress
from pathlib import Path

from orchestrator.launch_layout import Layout
from orchestrator.trainer.supervision import rank_record

# When an unfinished start is first reported, and the interval after that.
FIRST_REPORT_SECONDS, REPORT_INTERVAL_SECONDS = 10.0, 30.0
MAX_NAMED = 8


class Start:
    """Progress of the start of a run."""

    def __init__(self, run_directory: Path, layout: Layout) -> None:
        self.directory, self.hosts, self.seconds = run_directory, layout.ranks, layout.start_seconds
        self.began = time.monotonic()
        self._next, self._complete = FIRST_REPORT_SECONDS, False
        self.late = ""  # the state of the start at its time limit

    def missing(self) -> list[int]:
        """Return the ranks that have not started yet."""
        if self._complete:
            return []
        started = {record.rank for record in rank_record.read_all(self.directory)}
        not_started = [rank for rank in range(len(self.hosts)) if rank not in started]
        self._complete = not not_started
        return not_started

    def report_progress(self) -> None:
        """Print the progress if it is due, and record whether the time limit has passed."""
        passed = time.monotonic() - self.began
        not_started = self.missing() if min(self._next, self.seconds) <= passed else []
        if not_started and passed >= self._next:
            self._next = passed + REPORT_INTERVAL_SECONDS
            with suppress(OSError):  # a disk without room for the log
                print(self.describe(not_started, passed), flush=True)
        if not_started and passed >= self.seconds:
            self.late = self.late or self.describe(not_started, passed)

    def describe(self, not_started: list[int], passed: float) -> str:
        """Describe how many ranks have started, and which have not."""
        count, waiting = len(self.hosts), len(not_started)
        named = [f"rank {rank} on {self.hosts[rank]}" for rank in not_started[:MAX_NAMED]]
        named += [f"{waiting - MAX_NAMED} more"] if waiting > MAX_NAMED else []
        return f"{count - waiting} of {count} ranks have started after {passed:.0f} s; not yet: {', '.join(named)}"
