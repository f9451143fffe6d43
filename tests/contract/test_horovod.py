"""Cluster → Horovod, by Horovod itself inside the node image."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.config import Local
from orchestrator.docker import context
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.runs.launchers import horovod, hostfile
from tests import builders
from tests.contract.conftest import PYTHON, ProgramResult

InImage = Callable[..., ProgramResult]
PARSE = """
import json
from horovod.runner.common.util import hosts
text = hosts.parse_host_files("/given/hostfile")
found = hosts.get_host_assignments(hosts.parse_hosts(text), {np}, {np})
print(json.dumps([[slot.hostname, slot.rank, slot.local_rank] for slot in found]))
"""
# Parse the launcher's options without a launch.
ARGUMENTS = """
import json, sys
from horovod.runner import launch
found = launch.parse_args()
names = "num_proc hostfile nics start_timeout cycle_time_ms disable_cache use_gloo use_mpi command".split()
names += "fusion_threshold_mb autotune autotune_log_file".split()
print(json.dumps({name: list(v) if isinstance(v := getattr(found, name), set) else v for name in names}))
"""
PROOF = """
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
print(float(hvd.allreduce(tf.constant(41.0))), hvd.size(), bool(hvd.gloo_built()), bool(hvd.mpi_built()))
"""


@pytest.mark.parametrize("np", [1, 3, 6])
def test_hostfile_assigns_ranks_head_first_in_order_of_hosts(in_image: InImage, tmp_path: Path, np: int) -> None:
    (tmp_path / "hostfile").write_text(hostfile.text(builders.cluster(nodes=3, slots=2), np))
    result = in_image([PYTHON, "-c", PARSE.format(np=np)], mounts={tmp_path: "/given"})
    assert result.code == 0, result.text
    assert json.loads(result.text) == [[f"10.0.0.{10 + rank // 2}", rank, rank % 2] for rank in range(np)]


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_horovodrun_accepts_every_option_of_the_launch_command(in_image: InImage, controller: str) -> None:
    run = builders.run(controller=controller, cycle_time=2.5, fusion_threshold=64, autotune=True)
    words = horovod.command(run)
    launcher, options = words[:4], words[4:]
    result = in_image([PYTHON, "-c", ARGUMENTS, *options])
    assert result.code == 0, result.text
    assert json.loads(result.text.splitlines()[-1]) == {
        "num_proc": 2,
        "hostfile": "/shared/runs/resnet20-mnist-1/hostfile",
        "nics": ["eth0"],
        "start_timeout": run.start_seconds,
        "cycle_time_ms": 2.5,
        "fusion_threshold_mb": 64,
        "autotune": True,
        "autotune_log_file": "/shared/runs/resnet20-mnist-1/autotune.csv",
        "disable_cache": True,
        "use_gloo": controller == "gloo",
        "use_mpi": controller == "mpi",
        "command": options[options.index(PYTHON) :],
    }
    assert launcher == [PYTHON, "-P", "-m", "orchestrator.trainer.supervision.horovodrun"]


def test_horovod_is_built_with_tensorflow_gloo_and_mpi(in_image: InImage) -> None:
    result = in_image(["/opt/orchestrator/bin/horovodrun", "--check-build"])
    assert result.code == 0, result.text
    built = [line.split()[-1] for line in result.text.splitlines() if "[X]" in line]
    assert {word: built.count(word) for word in ("TensorFlow", "MPI", "Gloo")} == {"TensorFlow": 1, "MPI": 2, "Gloo": 2}


def test_horovod_imports_and_reduces(in_image: InImage) -> None:
    """`--check-build` prints what was requested (PyTorch too), so import Horovod and run an allreduce."""
    result = in_image([PYTHON, "-c", PROOF], HOROVOD_CONTROLLER="gloo", HOROVOD_CPU_OPERATIONS="gloo")
    assert result.code == 0, result.text
    assert result.text.splitlines()[-1] == "41.0 1 True True"


def test_image_contains_the_worker_side_of_this_checkout(in_image: InImage) -> None:
    result = in_image(["/bin/cat", "/opt/orchestrator/digest"])
    assert result.text.strip() == context.digest(Variant(Local().base_image))


def test_image_sources_equal_this_checkout_byte_for_byte(in_image: InImage) -> None:
    sources = {name: path for name, path in context.inputs() if name.startswith("orchestrator/")}
    result = in_image(["/usr/bin/sha256sum", *(f"/opt/orchestrator/src/{name}" for name in sources)])
    assert result.code == 0, result.text
    digests = [line.split()[0] for line in result.text.splitlines()]
    assert digests == [hashlib.sha256(path.read_bytes()).hexdigest() for path in sources.values()]


def test_image_history_hides_the_package_index(docker_engine: Engine, node_image: str) -> None:
    """The address of an index may contain a password, and an image's history contains build arguments."""
    history = docker_engine.client.images.get(node_image).history()
    assert any("DIGEST=" in layer["CreatedBy"] for layer in history)
    assert [layer["CreatedBy"] for layer in history if "PIP_" in layer["CreatedBy"]] == []
