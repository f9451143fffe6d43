"""Amounts that `check` measures: as much as slow nodes or networks manage within SECONDS, the same on every rank.

Sizes start small and grow by the duration of the last one. Nothing is extrapolated from a burst: a CPU quota and a
network's token bucket both let the first milliseconds through at full speed.
"""

from collections.abc import Callable, Sequence

SECONDS = 10.0  # for all measurements
MESSAGE_SECONDS = 4.0  # of SECONDS, for messages
MESSAGE_SIZES = [4 * 16**exponent for exponent in range(7)]  # 4 bytes to 64 MiB
REPEATS = 7
STEPS = 6  # that fit into the remaining time: one to find the size, the others to measure it
# Of a whole step, in the proportions of ResNet-50's on 32 images of 128 px: 102 MB of gradients for 257 GFLOP.
GROUPS, GROUP_BYTES, SIDE = 4, 4 << 20, 1728  # 17 MB for products of square matrices: 4 x 2 x 1728^3 = 41 GFLOP
LEAST_SIDE = 144  # of the sides that divide SIDE: 24 MFLOP, and 10 kB of gradients


def work(of_side: int) -> float:
    """Return the share, above 0 and up to 1, of the whole step's arithmetic in products of side ``of_side``."""
    return (of_side / SIDE) ** 3


def side(share: float) -> int:
    """Return the largest side whose :func:`work` is at most ``share``."""
    sides = range(LEAST_SIDE, SIDE + 1, LEAST_SIDE)
    return max((candidate for candidate in sides if work(candidate) <= share * 1.001), default=LEAST_SIDE)


def group_bytes(side: int) -> int:
    """Return the bytes of a group of gradients, scaled with the arithmetic."""
    return max(4, round(GROUP_BYTES * work(side)) // 4 * 4)


def grow(step: Callable[[int], float], target: float, max_side: int = SIDE) -> tuple[int, float]:
    """Find the largest step that takes at most ``target`` seconds, by steps of at most twice the side of the last one.

    The seconds of a step, scaled with the work, bound those of a larger one from above: parts that do not grow with the
    work are counted as if they did.

    Args:
        step: Runs a step of a given side and returns its seconds on the slowest rank.
        target: Seconds that a step may take.
        max_side: Largest side, for a step that is compared with one of that side.

    Returns:
        Side of the step, and the seconds that it took.
    """
    step(LEAST_SIDE)  # traces, and connects the ranks
    side, seconds = LEAST_SIDE, step(LEAST_SIDE)
    while True:
        larger = range(side + LEAST_SIDE, min(2 * side, max_side) + 1, LEAST_SIDE)
        fitting = [candidate for candidate in larger if seconds * work(candidate) / work(side) <= target]
        if not fitting:
            return side, seconds
        side, seconds = fitting[-1], step(fitting[-1])


def next_message_seconds(latencies: Sequence[float]) -> float:
    """Return an upper bound in seconds for a message of the next size, from the ``latencies`` of all smaller sizes.

    The next message is 16 times as long, so the increase from the last size counts 16 times. A message of 4 bytes is
    all latency.
    """
    before, last = [0.0, 0.0, *latencies[:1], *latencies][-2:]
    return last + 16 * max(0.0, last - before)


def repeats(seconds: float) -> int:
    """Return how often to send a message that took ``seconds`` the first time."""
    return max(1, min(REPEATS, int(MESSAGE_SECONDS / len(MESSAGE_SIZES) / seconds)))
