"""The wheel contains all files that the installed package needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import __version__, packaged_files
from orchestrator.docker import context
from tests.conftest import Missing

# Build requirements that pip downloads. Without a package index, the test is skipped.
UNREACHABLE = ("No matching distribution found", "Could not fetch", "Connection")


def pip(*argv: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pip", *argv]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, missing: Missing) -> Path:
    """Build a wheel of this checkout and install it into a directory."""
    target = tmp_path_factory.mktemp("wheel")
    built = pip("wheel", "--no-deps", "--wheel-dir", str(target), str(packaged_files.PACKAGE.parent))
    if built.returncode and any(words in built.stdout for words in UNREACHABLE):
        missing(f"no package index answers: {built.stdout.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stdout
    wheel = next(target.glob("*.whl"))
    result = pip("install", "--no-deps", "--no-compile", "--target", str(target / "site"), str(wheel))
    assert result.returncode == 0, result.stdout
    return target / "site"


@pytest.mark.parametrize("name", ["terraform", "ansible", "infra", "docker"])
def test_wheel_contains_files_for_other_tools_unchanged(installed: Path, name: str) -> None:
    source, carried = packaged_files.directory(name), installed / "orchestrator" / "assets" / name
    caches = {".terraform", "__pycache__"}
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and not caches & {*path.parts}]
    assert len(files) >= 4
    assert [path for path in files if (carried / path).read_bytes() != (source / path).read_bytes()] == []


def test_wheel_contains_every_recipe_study_and_module(installed: Path) -> None:
    names = {
        path.relative_to(packaged_files.PACKAGE)
        for path in [*packaged_files.PACKAGE.rglob("*.py"), *packaged_files.PACKAGE.rglob("*.yaml")]
    }
    assert {"resnet20.yaml", "datasets.yaml", "dey-2022.yaml"} <= {name.name for name in names}
    assert [name for name in names if not (installed / "orchestrator" / name).is_file()] == []


def test_wheel_contains_no_tests(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"orchestrator", "bin"}


def test_installed_package_reads_its_assets_and_builds_same_images(installed: Path, tmp_path: Path) -> None:
    ask = (
        "from orchestrator import packaged_files; from orchestrator.docker import context; "
        "print(packaged_files.directory('docker'), context.digest(context.Variant('x')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    directory, digest = result.stdout.split()
    assert directory == str(installed / "orchestrator" / "assets" / "docker")
    assert digest == context.digest(context.Variant("x"))


def test_installed_command_runs(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [str(installed / "bin" / "orchestrator"), "--version"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, f"orchestrator {__version__}\n")
