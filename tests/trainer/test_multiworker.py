"""Engine tensorflow-multiworker on two workers in this container."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import samples
from tests.trainer.launcher import results

MODULE = "orchestrator.trainer.engines.tensorflow_multiworker"


def start(directory: Path, workers: list[str], index: int) -> "subprocess.Popen[bytes]":
    task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(task), "LOCAL_RANK": str(index)}
    with (directory / f"log-{index}").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, str(directory)], env=environment, stdout=log, stderr=subprocess.STDOUT
        )


def addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return [f"localhost:{port}" for port in ports]


@pytest.mark.parametrize("limit", [1, 33])
def test_workers_with_fewer_batches_evaluate_those_they_have(tmp_path: Path, limit: int) -> None:
    """One worker has no test sample, or one batch while the other has two."""
    data = samples.mnist(tmp_path / "data", {"train": 70, "t10k": 40})
    changes = {"model": "lenet", "batch_size": 16, "epochs": 1, "engine": "tensorflow-multiworker"}
    samples.train_config(data=str(data), test_samples=limit, **changes).write(tmp_path / "config.json")
    hosts = addresses(2)
    workers = [start(tmp_path, hosts, index) for index in range(2)]
    try:
        codes = [worker.wait(300) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert codes == [0, 0], (tmp_path / "log-1").read_text()
    assert [epoch.test.images for epoch in results(tmp_path).epochs] == [limit]
