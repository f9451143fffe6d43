"""The role nvidia: how a driver is loaded, checked and reported.

The role's own tasks run on this machine. No machine of the tests has an NVIDIA GPU, so `modprobe`, `nvidia-smi` and
`docker` are fakes.
"""

import ctypes
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from tests.contract.conftest import ProgramResult

ROLES = packaged_files.directory("ansible") / "roles"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"

Role = Callable[..., ProgramResult]


@pytest.fixture
def role(ansible: Callable[..., ProgramResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Role:
    """Return a function that runs one file of the role's tasks with fakes: each a program with its shell script."""
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(ROLES))
    monkeypatch.setenv("PATH", f"{tmp_path}/fakes:{os.environ['PATH']}")
    (tmp_path / "fakes").mkdir()

    def run(tasks: str, fakes: dict[str, str], **variables: Any) -> ProgramResult:
        for name, script in fakes.items():
            (tmp_path / "fakes" / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "fakes" / name).chmod(0o755)
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "vars": {"gpu_least_driver": "525.60.13", "machines_stay": True, **variables}
            | {"ansible_python_interpreter": sys.executable},
            "tasks": [{"ansible.builtin.import_role": {"name": "nvidia", "tasks_from": tasks}}],
        }
        playbook = tmp_path / "play.yml"
        playbook.write_text(json.dumps([play]))
        return ansible("ansible-playbook", "-i", "localhost,", "-c", "local", str(playbook))

    return run


def message(result: ProgramResult) -> str:
    return " ".join(result.text.split())


def test_working_driver_needs_no_restart_whatever_its_module_is_called(role: Role, tmp_path: Path) -> None:
    """Debian calls the module nvidia-current, so that `modinfo nvidia` fails."""
    asked = f"echo asked >> {tmp_path}/asked; echo 535.261.03"
    result = role("load_driver", {"modprobe": "exit 0", "modinfo": "exit 1", "nvidia-smi": asked})
    assert result.code == 0, result.text
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_machine_that_stays_is_not_restarted_for_a_new_driver(role: Role) -> None:
    result = role("load_driver", {"modprobe": "exit 0", "nvidia-smi": f"echo '{MISMATCH}'; exit 18"})
    assert (
        result.code,
        f"must restart to load the installed NVIDIA driver or kernel ({MISMATCH})" in message(result),
    ) == (
        2,
        True,
    )


@pytest.mark.parametrize("reason", ["Key was rejected by service", "Operation not permitted"])
def test_driver_that_secure_boot_rejects_is_reported(role: Role, reason: str) -> None:
    rejected = f"echo \"modprobe: ERROR: could not insert 'nvidia': {reason}\" >&2; exit 1"
    result = role("load_driver", {"modprobe": rejected, "nvidia-smi": "exit 9"})
    assert (result.code, "turn Secure Boot off" in message(result), reason in message(result)) == (2, True, True)


def test_driver_that_is_too_old_is_refused(role: Role) -> None:
    result = role("load_driver", {"modprobe": "exit 0", "nvidia-smi": "echo 470.256.02"})
    assert (result.code, "has NVIDIA driver 470.256.02, expected 525.60.13" in message(result)) == (2, True)


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [(f"echo '{MISMATCH}'; exit 18", "run `sudo reboot` there"), ("echo 470.256.02", "set `gpu.driver: distro`")],
)
def test_driver_of_the_owner_is_not_replaced(role: Role, answer: str, remedy: str) -> None:
    variables = {
        "gpu_driver": "distro",
        "gpu_auto": True,
        "gpu_packages": {"debian 12": []},
        "current_configuration_of_node": {"system": "debian 13", "kernel": "6.12.0-cloud-amd64"},
    }
    result = role("main", {"nvidia-smi": answer}, **variables)
    assert (result.code, "has an NVIDIA driver that the trainer cannot use" in message(result)) == (2, True)
    assert remedy in message(result)
    result = role("main", {"nvidia-smi": answer}, **variables, machines_stay=False)
    assert "has debian 13, expected debian 12" in message(result)


def test_unknown_operating_system_is_refused_before_anything_is_installed(role: Role) -> None:
    variables = {
        "gpu_driver": "cuda-repository",
        "gpu_packages": {"debian 12": []},
        "current_configuration_of_node": {"system": "debian 13", "kernel": "6.12.0-cloud-amd64"},
    }
    result = role("main", {}, **variables)
    assert (result.code, "has debian 13, expected debian 12 to install" in message(result)) == (2, True)


class FakeCuda:
    """Fake of the CUDA driver whose initialization fails with a code."""

    def __init__(self, code: int) -> None:
        self.code = code

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return self.code

    def cuGetErrorString(self, _code: int, _text: Any) -> int:  # noqa: N802
        return 0


@pytest.mark.parametrize(("code", "remedy"), [(802, True), (100, False)])
def test_missing_fabric_manager_is_named(monkeypatch: pytest.MonkeyPatch, code: int, remedy: bool) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: FakeCuda(code))
    with pytest.raises(SystemExit, match=rf"CUDA: unknown error \(CUDA error {code}\)") as caught:
        runpy.run_path(str(ROLES / "nvidia" / "files" / "allocate_gpu_memory.py"))
    assert ("nvidia-fabricmanager" in str(caught.value)) == remedy
