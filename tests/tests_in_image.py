"""Run tests/trainer inside the node image, which has TensorFlow, Horovod and the worker side as nodes do."""

import shutil
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path

import pytest

from orchestrator import packaged_files
from tests.contract.conftest import PYTHON, ProgramResult

TESTS = Path(__file__).parent
INSIDE = "/opt/orchestrator/src/orchestrator"
GUIDE = TESTS.parent / "docs" / "guide"  # has a program that is tested as printed
RECIPES = packaged_files.PACKAGE / "recipes"  # of the control side, compared with the networks
NETWORKS, SCRIPTS = (
    packaged_files.PACKAGE / "prediction" / "networks.json",
    TESTS.parent / "scripts",
)  # made by scripts/write_networks
# pytest and its imports, all pure Python: copied into the container, because the image has no pytest.
BROUGHT = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
OPTIONS = ("-q", "-p", "no:cacheprovider", "--confcutdir", "tests/trainer", "--rootdir", "/suite", "--durations", "5")

Passes = Callable[[Sequence[str]], None]


def files(directory: str) -> list[str]:
    """List the test files in this directory, without subdirectories, by their names in the container."""
    return sorted(f"tests/{path.relative_to(TESTS)}" for path in (TESTS / directory).glob("test_*.py"))


@pytest.fixture
def passes(in_image: Callable[..., ProgramResult], tmp_path: Path) -> Passes:
    """Return a function that runs test files in the image and fails if one of them fails."""
    _bring(tmp_path)

    def run(names: Sequence[str]) -> None:
        command = f"cd /suite && exec {PYTHON} -m pytest {' '.join([*OPTIONS, *names])}"
        result = in_image(
            ["/bin/sh", "-c", command],
            mounts={
                TESTS: "/suite/tests",
                SCRIPTS: "/suite/scripts",
                GUIDE: "/suite/docs/guide",
                tmp_path: "/site",
                RECIPES: f"{INSIDE}/recipes",
                NETWORKS: f"{INSIDE}/networks.json",
            },
            PYTHONPATH="/suite:/site",
            PYTHONDONTWRITEBYTECODE="1",
        )
        print(result.text)
        assert result.code == 0, result.text

    return run


def _bring(site: Path) -> None:
    """Copy pytest into ``site``, a directory of the module search path."""
    for name in BROUGHT:
        spec = util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(source.parent, site / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, site)
