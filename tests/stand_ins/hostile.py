"""Assertions for every refusal of bad input."""

import subprocess

MOST = 2000  # characters of a message


def assert_refused(finished: "subprocess.CompletedProcess[str]", *names: str, codes: tuple[int, ...] = (1, 2)) -> None:
    """Assert one error with exit code 1 or 2 that contains ``names``, without a traceback or a result."""
    message = finished.stderr
    assert "Traceback" not in message, message
    assert "a bug" not in message, message
    assert finished.returncode in codes, (finished.returncode, message)
    assert sum(line.startswith("error:") for line in message.splitlines()) == 1, message
    assert len(message) < MOST, message[:MOST]
    for name in names:
        assert name in message, (name, message)


def assert_no_bug(finished: "subprocess.CompletedProcess[str]") -> None:
    """Assert that the command ended without a traceback, whether it accepted the input or not."""
    assert "Traceback" not in finished.stderr, finished.stderr
    assert finished.returncode in (0, 1, 2), (finished.returncode, finished.stderr)
