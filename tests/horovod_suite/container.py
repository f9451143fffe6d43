"""Run one of Horovod's test files in throw-away containers of the image, again without tests that did not end."""

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.config import Framework
from orchestrator.docker.engine import Engine
from tests.horovod_suite import reasons, results
from tests.horovod_suite.plan import Run
from tests.horovod_suite.results import Result

INSIDE = Path(__file__).parent / "inside"
PYTHON = "/opt/orchestrator/bin/python"
RANKS = 2
SILENCE_SECONDS = 300  # a test takes seconds; one that starts elastic runs takes two minutes
RESTARTS = 25
# sshd and a key, for tests that start ranks by ssh on this host; a copy of the tests, as some write into their folder.
PREPARE = """
mkdir -p /run/sshd /horovod ~/.ssh; ssh-keygen -q -N '' -f ~/.ssh/id_rsa; cp ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys
ssh-keygen -A > /dev/null; /usr/sbin/sshd; ssh-keyscan -H localhost 127.0.0.1 > ~/.ssh/known_hosts 2> /dev/null
cp -r /source/test /source/examples /horovod/; cd /horovod/test/{directory}
"""


@dataclass(frozen=True)
class Suite:
    """Paths and images: Horovod's sources, the tests' imports, the images, and the directory for results."""

    source: Path
    packages: Path
    images: Mapping[Framework, str]
    output: Path


def execute(engine: Engine, suite: Suite, run: Run) -> dict[str, Result]:
    """Run a file until every test has ended or timed out.

    Args:
        engine: Docker Engine.
        suite: What the run needs.
        run: File and circumstances.

    Returns:
        Results by test.
    """
    directory = suite.output / run.name
    merged: dict[str, Result] = {}
    for attempt in range(RESTARTS):
        records = directory / f"records-{attempt}"
        records.mkdir(parents=True)
        (records / "known.json").write_text(json.dumps(list(merged)))
        ending = _attempt(engine, suite, run, records)
        records_read = [results.read(path) for path in sorted(records.glob("*.jsonl"))]
        merged |= results.merge(records_read, ending)
        if not any(record.open for record in records_read):
            break
    if not merged:
        merged[run.file] = Result(run.file, "failed", f"no test started: {ending}")
    return merged


def _attempt(engine: Engine, suite: Suite, run: Run, records: Path) -> str:
    """Run the tests that have no result yet; return how the container ended."""
    container = engine.client.containers.run(
        suite.images[run.framework],
        ["-c", _script(run)],
        entrypoint=["/bin/sh"],
        environment=_environment(run),
        volumes={
            str(suite.source): {"bind": "/source", "mode": "ro"},
            str(suite.packages): {"bind": "/packages", "mode": "ro"},
            str(INSIDE): {"bind": "/plugin", "mode": "ro"},
            str(records): {"bind": "/records", "mode": "rw"},
        },
        network_mode="none",
        hostname="localhost",  # Gloo resolves its own host name
        shm_size="1g",
        init=True,
        detach=True,
    )
    try:
        return _wait(container, records)
    finally:
        (records / "log").write_bytes(container.logs())
        container.remove(force=True)


def _wait(container: Any, records: Path) -> str:
    """Wait until a container has ended, or its tests have printed nothing for too long."""
    started = time.time()
    while True:
        time.sleep(1)
        container.reload()
        if container.status == "exited":
            return f"a rank ended: exit code {container.attrs['State']['ExitCode']}"
        if time.time() - max(started, *(path.stat().st_mtime for path in records.iterdir())) > SILENCE_SECONDS:
            return f"did not end within {SILENCE_SECONDS} s"


def _script(run: Run) -> str:
    directory, _, name = run.file.partition("/")
    pytest = [PYTHON, "-m", "pytest", "-v", "-p", "record", "-p", "no:cacheprovider", "--rootdir", "/horovod/test"]
    launcher = [f"--{run.transport}", "-np", str(RANKS), "-H", f"localhost:{RANKS}", "--disable-cache"]
    words = ["horovodrun", *launcher] if run.transport else []
    changes = [
        shlex.join(["sed", "--in-place", f"s|{change.old}|{change.new}|", name]) + "\n"
        for change in reasons.changes()
        if change.tests == run.file
    ]
    return PREPARE.format(directory=directory) + "".join(changes) + shlex.join(["exec", *words, *pytest, name])


def _environment(run: Run) -> dict[str, str]:
    return {
        "PYTHONPATH": "/packages:/plugin",
        "HOROVOD_SUITE_RECORD": "/records",
        "TF_USE_LEGACY_KERAS": "1" if run.keras == 2 else "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
