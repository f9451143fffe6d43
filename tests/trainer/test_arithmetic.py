"""Which arithmetic a run uses where nobody said."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.schema import Checkpoint
from orchestrator.trainer.autotune import bf16_probe, precision
from orchestrator.trainer.checkpoints import checkpoint
from tests import samples
from tests.trainer import launcher

KERNELS = "TF_ENABLE_ONEDNN_OPTS"
ASK = """
import orchestrator.trainer.train
from tensorflow.python.util import _pywrap_util_port
print(_pywrap_util_port.IsMklEnabled())
"""


def test_a_run_says_what_all_its_ranks_settled_on_and_one_that_goes_on_keeps_to_it(tmp_path: Path) -> None:
    run = tmp_path / "auto"
    launcher.train(run, ranks=2, epochs=1, steps=2, precision="auto")
    used = launcher.results(run).config.precision
    assert used in ("bfloat16", "float32")
    kept = next((run / "checkpoints").glob("epoch-*"))
    assert Checkpoint.model_validate_json((kept / "checkpoint.json").read_text()).precision == used
    assert checkpoint.with_resumed_choices(samples.train_config(precision="auto", resume=str(kept))).precision == used


def test_a_cpu_that_ends_a_program_by_a_signal_is_not_asked_for_those_instructions_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter in place of which this one stands ends so unless TensorFlow is limited, as such a CPU would."""
    dying = tmp_path / "python-that-dies"
    dying.write_text(f'#!/bin/sh\n[ -n "$ONEDNN_MAX_CPU_ISA" ] || kill -ILL $$\nexec {sys.executable} "$@"\n')
    dying.chmod(0o755)
    monkeypatch.delenv(precision.ISA_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "executable", str(dying))
    monkeypatch.setattr(bf16_probe, "may_have_bfloat16", lambda: True)
    found = precision._measure(1)
    assert found["limited"]
    assert found["gain"] > 0


def test_a_program_that_takes_too_long_gains_nothing_and_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, started = tmp_path / "python-that-sleeps", tmp_path / "started"
    slow.write_text(f"#!/bin/sh\necho >> {started}\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(bf16_probe, "may_have_bfloat16", lambda: True)
    monkeypatch.setattr(bf16_probe, "SECONDS", 0.5)
    assert precision._measure(1) == precision.NO_GAIN
    assert started.read_text() == "\n"


@pytest.mark.parametrize(("wanted", "used"), [(None, "True"), ("0", "False")])
def test_training_takes_the_kernels_of_onednn_on_every_cpu_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None, used: str
) -> None:
    monkeypatch.delenv(KERNELS, raising=False)
    if wanted is not None:
        monkeypatch.setenv(KERNELS, wanted)
    said = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == used
