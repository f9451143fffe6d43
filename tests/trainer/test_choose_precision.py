"""Precision that a run with "auto" chooses."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.schema import Checkpoint
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer.autotune import bf16_probe, choose_precision
from orchestrator.trainer.checkpoints import checkpoint
from tests import samples
from tests.trainer import launcher

KERNELS = "TF_ENABLE_ONEDNN_OPTS"
MEASURE = """
import json, multiprocessing, os, signal, time
import orchestrator.trainer.train
from orchestrator.trainer.autotune import bf16_benchmark, bf16_probe, choose_precision
speedup, fork, forks = bf16_benchmark.speedup, bf16_probe._fork, []
def in_copy(threads):
    {benchmark}
    return speedup(threads)
def counted(*arguments):
    forks.append(arguments)
    return fork(*arguments)
bf16_benchmark.speedup, bf16_probe._fork, bf16_probe.may_have_bfloat16 = in_copy, counted, lambda: True
vars(bf16_probe).update({changes})
bf16_probe._started.append(bf16_probe._fork(1, {{}}))
begun = time.monotonic()
measured = choose_precision._measure(1)
left = len(multiprocessing.active_children())
print(json.dumps({{**measured, "seconds": time.monotonic() - begun, "forks": len(forks), "left": left}}))
"""
ASK = """
import orchestrator.trainer.train
from tensorflow.python.util import _pywrap_util_port
print(_pywrap_util_port.IsMklEnabled())
"""


def test_auto_precision_is_recorded_and_kept_when_resumed(tmp_path: Path) -> None:
    run = tmp_path / "auto"
    launcher.train(run, ranks=2, epochs=1, steps=2, precision="auto")
    used = launcher.results(run).config.precision
    assert used in ("bfloat16", "float32")
    saved = next((run / "checkpoints").glob("epoch-*"))
    assert Checkpoint.model_validate_json((saved / "checkpoint.json").read_text()).precision == used
    again = samples.train_config(precision="auto", resume=str(saved))
    assert checkpoint.with_resumed_choices(again, 1).precision == used


def test_ranks_follow_the_stored_gain_and_repair_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv(KERNELS, "1")  # like orchestrator/trainer/train.py
    entry = bf16_probe.entry(samples.train_config().threads)
    entry.path.write_text("{")
    for name in ("measured", "opposite"):
        output = launcher.train(tmp_path / name, ranks=2, epochs=1, steps=1, precision="auto")
        assert output.returncode == 0, output.stdout
        measured = entry.read(dict)
        assert measured is not None
        faster = measured["gain"] >= MIN_SPEEDUP
        assert launcher.results(tmp_path / name).config.precision == ("bfloat16" if faster else "float32")
        entry.write({"gain": 0.5 if faster else 9.0, "limited": True})
    names = [path.name.split("-")[1] for path in tmp_path.glob(".orchestrator-*")]
    assert sorted(names) == ["bfloat16", "convolutions", "convolutions"]  # of both precisions


def measure(benchmark: str, **changes: object) -> dict[str, Any]:
    """Return what a new process measures whose benchmark begins with a statement; a fork needs an unused TensorFlow.

    Args:
        benchmark: Statement that runs in the copy of the process, before the benchmark.
        changes: Constants of ``bf16_probe``.

    Returns:
        The measurement, with the seconds that it took, and the number of processes that are left.
    """
    code = MEASURE.format(benchmark=benchmark, changes=changes)
    environment = {name: value for name, value in os.environ.items() if name != choose_precision.ISA_VARIABLE}
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert "Traceback" not in output.stderr
    measured: dict[str, Any] = json.loads(output.stdout)
    return measured


def test_precision_is_measured_without_amx_after_sigill() -> None:
    variable = choose_precision.ISA_VARIABLE
    measured = measure(f'"{variable}" in os.environ or os.kill(os.getpid(), signal.SIGILL)')
    assert measured["limited"]
    assert measured["gain"] > 0


def test_benchmark_that_was_started_is_not_repeated() -> None:
    measured = measure("pass")
    assert not measured["limited"]
    assert measured["gain"] > 0
    assert measured["forks"] == 1


def test_benchmark_that_times_out_is_killed_and_not_repeated() -> None:
    measured = measure("time.sleep(60)", SECONDS=0.5)
    assert measured.pop("seconds") < 30
    assert measured == {**choose_precision.NO_GAIN, "forks": 1, "left": 0}


@pytest.mark.parametrize(("setting", "used"), [(None, "True"), ("0", "False")])
def test_onednn_is_on_unless_the_environment_disables_it(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, used: str
) -> None:
    monkeypatch.delenv(KERNELS, raising=False)
    if setting is not None:
        monkeypatch.setenv(KERNELS, setting)
    output = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
    assert output.stdout.strip() == used
