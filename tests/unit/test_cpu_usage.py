"""The share of a machine's CPU that is in use."""

import time
from multiprocessing import Process

import pytest

from orchestrator import cpu_usage

STAT = "cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n"


def test_share_is_the_growth_between_two_readings() -> None:
    assert cpu_usage.share(STAT.format(user=10, idle=100), STAT.format(user=40, idle=170)) == 0.3


def test_two_equal_readings_are_no_load() -> None:
    assert cpu_usage.share(STAT.format(user=10, idle=100), STAT.format(user=10, idle=100)) == 0


def test_decrease_of_iowait_is_no_load() -> None:
    before, after = ("cpu  {} 0 0 {} {} 0 0 0 0 0\n".format(*times) for times in ((10, 100, 500), (12, 138, 450)))
    assert cpu_usage.share(before, after) == 0.05


def test_lines_of_a_login_shell_are_no_readings() -> None:
    readings = "".join(["Welcome, cpu user\n\n", STAT.format(user=10, idle=100), "\n", STAT.format(user=40, idle=170)])
    assert cpu_usage.of(readings) == 0.3


@pytest.mark.parametrize("text", ["", "Welcome\n", STAT.format(user=1, idle=1), 3 * STAT.format(user=1, idle=1)])
def test_other_output_than_two_readings_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not two readings of /proc/stat"):
        cpu_usage.of(text)


def test_computing_program_is_visible() -> None:
    def work() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pass

    program = Process(target=work)
    program.start()
    try:
        assert cpu_usage.measure() > 0
    finally:
        program.kill()
        program.join()
