"""Share of a machine's CPU time that programs use, from two readings of /proc/stat."""

import re
import time
from pathlib import Path

SECONDS = 0.2  # between the readings
STAT = Path("/proc/stat")
READINGS = f"cat {STAT}; sleep {SECONDS}; echo; cat {STAT}"  # for the shell of another machine

TOTAL = re.compile(r"^cpu(?: +[0-9]{1,20}){8,}", re.MULTILINE)  # the line for all cores


def measure() -> float:
    """Return the share of this machine's CPU in use now, 0 to 1."""
    before = STAT.read_text()
    time.sleep(SECONDS)
    return share(before, STAT.read_text())


def share(before: str, after: str) -> float:
    """Return the share of the CPU in use between two readings of /proc/stat, 0 to 1."""
    # The time of iowait may decrease (proc(5)).
    grown = [max(0, later - earlier) for later, earlier in zip(_times(after), _times(before), strict=True)]
    idle = grown[3] + grown[4]
    return (sum(grown) - idle) / max(1, sum(grown))


def of(readings: str) -> float:
    """Return the share of the CPU in use, 0 to 1, from the output of READINGS, between lines of a login shell.

    Raises:
        ValueError: There are not two readings.
    """
    totals = TOTAL.findall(readings)
    if len(totals) != 2:
        raise ValueError(f"not two readings of {STAT}: {readings[:200]!r}")
    return share(*totals)


def _times(stat: str) -> list[int]:
    """Return times since boot (proc(5), /proc/stat: user nice system idle iowait irq softirq steal)."""
    return [int(word) for word in stat.splitlines()[0].split()[1:9]]
