"""Data sets on the shared storage of the nodes."""

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import shared_data
from orchestrator.runs.datasets import FoundDataset
from tests.stand_ins import ssh_stand_in


def test_full_shared_storage_is_refused_with_a_remedy(tmp_path: Path) -> None:
    data = FoundDataset("imagenet", tmp_path, [], train=1, test=1, note="")
    data.__dict__["size"] = 140 << 30

    def answer(command: str) -> bytes | None:
        return None if command.startswith("test ") else f"Avail\n{20 << 30}\n".encode()

    with ssh_stand_in.session(answer) as head, pytest.raises(ConfigError) as caught:
        shared_data.upload(head, data)
    has = "imagenet has 140.0 GiB, /shared on the nodes has 20.0 GiB free, of which 1 GiB must stay free"
    assert caught.value.message == f"train.data: {has}"
    assert "`orchestrator ssh` opens a terminal on the head: remove data in /shared/data" in caught.value.hint
