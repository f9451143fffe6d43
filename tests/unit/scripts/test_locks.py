"""Lock files of Python packages: they fit the requirements, and refuse other contents."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from orchestrator import packaged_files

ROOT = packaged_files.PACKAGE.parent
CONTROL, IMAGE = ("3.10", "3.11", "3.12", "3.13"), ("3.11", "3.12", "3.13")
REFUSED = "DO NOT MATCH THE HASHES"


def project(key: str) -> list[str]:
    """Return the requirements under a key of pyproject.toml; Python 3.10 cannot parse TOML."""
    [listed] = re.findall(rf"^{key} = \[(.*?)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed)


def lines(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


@cache
def entries(lock: str) -> list[tuple[Requirement, list[str]]]:
    """Return (package, its SHA-256 sums) of every entry of a lock file."""
    pinned = re.findall(r"^(\S[^\\]*?)((?: \\\n? *--hash=sha256:[0-9a-f]{64})+)$", read(lock), re.MULTILINE)
    return [(Requirement(entry), re.findall(r"sha256:(\w+)", hashes)) for entry, hashes in pinned]


def read(lock: str) -> str:
    """Return a lock file without comments, with each entry on one or several lines."""
    return "\n".join(line.replace(" --hash", " \\\n    --hash") for line in lines(lock)).replace("\\\n    \\", "\\")


def versions(lock: str, python: str, machine: str = "x86_64") -> dict[str, str]:
    """Return the versions that a lock file installs with this Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "platform_machine": machine}
    environment |= {"sys_platform": "linux", "platform_system": "Linux", "extra": ""}
    selected = [entry for entry, _ in entries(lock) if entry.marker is None or entry.marker.evaluate(environment)]
    return {canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry in selected}


def image(*parts: str) -> list[str]:
    """Return the requirements of an image: of these files and of the one that all images share."""
    return [line for part in ("image", *parts) for line in lines(f"requirements/{part}.in")]


INPUTS = {
    "requirements/cli.txt": (project("dependencies"), CONTROL),
    "requirements/development.txt": (project("dependencies") + project("dev"), CONTROL),
    "requirements/build.txt": (lines("requirements/build.in") + project("requires"), CONTROL),
    "requirements/uv.txt": (lines("requirements/uv.in"), CONTROL),
    "docker/requirements-tensorflow-cpu.txt": (image("tensorflow", "tensorflow-cpu"), IMAGE),
    "docker/requirements-tensorflow-gpu.txt": (image("tensorflow", "tensorflow-gpu"), IMAGE),
    "docker/requirements-pytorch-cpu.txt": (image("pytorch"), IMAGE),
    "docker/requirements-pytorch-gpu.txt": (image("pytorch"), IMAGE),
    "docker/requirements-both-cpu.txt": (image("tensorflow", "tensorflow-cpu", "pytorch", "both"), IMAGE),
    "docker/requirements-worker.txt": (lines("requirements/worker.in"), IMAGE),
    "docker/cuda-tensorflow.txt": (lines("requirements/cuda-tensorflow.in"), IMAGE),
    "docker/cuda-pytorch.txt": (lines("requirements/cuda-pytorch.in"), IMAGE),
    "requirements/horovod-suite.txt": (lines("requirements/horovod-suite.in"), IMAGE),
}


@pytest.mark.parametrize("lock", INPUTS)
def test_lock_has_a_fitting_version_of_every_requirement(lock: str) -> None:
    """If this fails, run `make lock UPGRADE=`."""
    requirements, pythons = INPUTS[lock]
    for python in pythons:
        for machine in ("x86_64", "aarch64"):
            has = versions(lock, python, machine)
            environment = {"python_version": python, "platform_machine": machine, "sys_platform": "linux"}
            needed = [r for r in map(Requirement, requirements) if r.marker is None or r.marker.evaluate(environment)]
            assert needed
            missing = [str(r) for r in needed if not r.specifier.contains(has.get(canonicalize_name(r.name), "0"))]
            assert missing == [], python


@pytest.mark.parametrize("lock", [*INPUTS, "docker/horovod.txt"])
def test_every_locked_package_has_one_version_and_checksums(lock: str) -> None:
    text, pinned = (ROOT / lock).read_text(), entries(lock)
    assert pinned
    assert len(pinned) == len([line for line in lines(lock) if not line.startswith(" ")])
    assert [str(entry) for entry, hashes in pinned if not hashes or not str(entry.specifier).startswith("==")] == []
    assert re.search(r"://|index-url|find-links|trusted-host", text) is None


@pytest.mark.parametrize("python", CONTROL)
def test_development_tools_change_no_version_of_the_command(python: str) -> None:
    command, all_of_them = (
        versions("requirements/cli.txt", python),
        versions("requirements/development.txt", python),
    )
    assert {name: all_of_them.get(name) for name in command} == command


def forge(directory: Path, name: str, marker: Path) -> None:
    """Write a source archive or wheel of this name with other contents, which creates ``marker`` when it is built."""
    directory.mkdir()
    if name.endswith(".whl"):
        distribution, version = name.split("-")[:2]
        with zipfile.ZipFile(directory / name, "w") as wheel:
            info = f"{distribution}-{version}.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return
    content = f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='horovod', version='0.28.1')\n"
    with tarfile.open(directory / name, "w:gz") as archive:
        member = tarfile.TarInfo(f"{name.removesuffix('.tar.gz')}/setup.py")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content.encode()))


def offline(directory: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose pip finds only the forged files of ``directory``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(directory / "forged"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def first(lock: str) -> str:
    """Return the file name of a pure wheel of a lock file's first package."""
    entry = entries(lock)[0][0]
    return f"{entry.name.replace('-', '_')}-{str(entry.specifier).removeprefix('==')}-py3-none-any.whl"


def test_make_installs_no_wheel_with_another_checksum(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    forge(tmp_path / "forged", first("requirements/build.txt"), tmp_path / "built")
    result = offline(tmp_path, "make", ".venv/installed")
    assert result.returncode != 0
    assert REFUSED in result.stderr
    assert not (tmp_path / ".venv" / "installed").exists()


def pip_commands() -> list[tuple[str, str]]:
    """Return (command, lock file) of every use of pip in the image build, with local paths."""
    commands = []
    for name in ("Dockerfile", "cuda-tensorflow.sh", "cuda-pytorch.sh", "horovod.sh", "users-image.sh"):
        text = (ROOT / "docker" / name).read_text().replace("\\\n", "")
        for command, file in re.findall(r"(pip (?:install|download) .*)--requirement \"?(?:/tmp/)?([^\s\"]+)", text):
            lock = file.replace("${FRAMEWORK}", "tensorflow").replace("${ACCELERATOR}", "cpu")
            commands.append((f"{command} --requirement {ROOT}/docker/{lock}", lock))
    return commands


@pytest.mark.parametrize(("command", "lock"), pip_commands(), ids=lambda value: value.split()[-1])
def test_image_build_accepts_no_file_with_another_checksum(command: str, lock: str, tmp_path: Path) -> None:
    name = "horovod-0.28.1.tar.gz" if lock == "horovod.txt" else first(f"docker/{lock}")
    forge(tmp_path / "forged", name, tmp_path / "built")
    result = offline(tmp_path, "sh", "-c", command.replace("pip install", "pip install --dry-run"))
    assert result.returncode != 0
    assert REFUSED in result.stderr
    assert not (tmp_path / "built").exists()


def test_image_build_uses_pip_with_lock_files_only() -> None:
    images = {"requirements-tensorflow-cpu.txt", "cuda-tensorflow.txt", "cuda-pytorch.txt", "horovod.txt"}
    assert {lock for _, lock in pip_commands()} == images | {"requirements-worker.txt"}
