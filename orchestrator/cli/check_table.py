"""Print what `check` measured."""

from orchestrator.cli import output
from orchestrator.schema import CheckRank, CheckResult


def check(result: CheckResult) -> None:
    """Print the ranks that answered, their allreduce results, and its cost by message size."""
    output.table(
        ("rank", "host", "local rank", "allreduce"),
        [(r.rank, r.host, r.local_rank, _rank_check(r, result)) for r in result.ranks],
    )
    output.line()
    output.table(
        ("message", "latency", "bus bandwidth"),
        [
            (_size(s.bytes), f"{s.latency_seconds * 1e3:.2f} ms", f"{s.bus_bandwidth / 1e6:.1f} MB/s")
            for s in result.sizes
        ],
    )
    output.line()
    share = f" for {result.step_work:.2%} of its size, because the nodes are slow" if result.step_work < 1 else ""
    output.line(f"a step that computes while its gradients are sent: {result.step_seconds * 1e3:.0f} ms{share}")


def _rank_check(rank: CheckRank, result: CheckResult) -> str:
    right = rank.allreduce_sum == result.expected_sum
    return f"{rank.allreduce_sum:g} (right)" if right else f"{rank.allreduce_sum:g} instead of {result.expected_sum:g}"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} B"
