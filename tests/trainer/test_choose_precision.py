"""Precision that a run with "auto" chooses."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orchestrator.schema import Checkpoint
from orchestrator.trainer.autotune import MIN_SPEEDUP, bf16_probe, choose_precision
from orchestrator.trainer.checkpoints import checkpoint
from tests import samples
from tests.trainer import launcher

KERNELS = "TF_ENABLE_ONEDNN_OPTS"
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
    assert checkpoint.with_resumed_choices(samples.train_config(precision="auto", resume=str(saved))).precision == used


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


def test_precision_is_measured_without_amx_after_sigill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the interpreter by a script that dies of SIGILL unless TensorFlow is limited."""
    dying = tmp_path / "python-that-dies"
    dying.write_text(f'#!/bin/sh\n[ -n "$ONEDNN_MAX_CPU_ISA" ] || kill -ILL $$\nexec {sys.executable} "$@"\n')
    dying.chmod(0o755)
    monkeypatch.delenv(choose_precision.ISA_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "executable", str(dying))
    monkeypatch.setattr(bf16_probe, "may_have_bfloat16", lambda: True)
    measured = choose_precision._measure(1)
    assert measured["limited"]
    assert measured["gain"] > 0


def test_benchmark_that_times_out_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, started = tmp_path / "python-that-sleeps", tmp_path / "started"
    slow.write_text(f"#!/bin/sh\necho >> {started}\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(bf16_probe, "may_have_bfloat16", lambda: True)
    monkeypatch.setattr(bf16_probe, "SECONDS", 0.5)
    assert choose_precision._measure(1) == choose_precision.NO_GAIN
    assert started.read_text() == "\n"


@pytest.mark.parametrize(("setting", "used"), [(None, "True"), ("0", "False")])
def test_onednn_is_on_unless_the_environment_disables_it(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, used: str
) -> None:
    monkeypatch.delenv(KERNELS, raising=False)
    if setting is not None:
        monkeypatch.setenv(KERNELS, setting)
    output = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
    assert output.stdout.strip() == used
