"""tests/trainer, run inside the node image: there are TensorFlow and Horovod, and the worker side as nodes have it."""

import shutil
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path

import pytest

from orchestrator import packaged_files
from tests.contract.conftest import PYTHON, Said

TESTS = Path(__file__).parent
INSIDE = "/opt/orchestrator/src/orchestrator"
RECIPES = packaged_files.PACKAGE / "recipes"  # the control side's: what they say of networks is held against these
NETWORKS, SCRIPTS = (
    packaged_files.PACKAGE / "prediction" / "networks.json",
    TESTS.parent / "scripts",
)  # made by scripts/networks
# pytest and what it imports, all of it pure Python: brought along, for the image has no need of it.
BROUGHT = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
OPTIONS = ("-q", "-p", "no:cacheprovider", "--confcutdir", "tests/trainer", "--rootdir", "/suite", "--durations", "5")

Passes = Callable[[Sequence[str]], None]


def files(directory: str) -> list[str]:
    """The tests in this directory of the tests, and in none below it, as their container names them."""
    return sorted(f"tests/{path.relative_to(TESTS)}" for path in (TESTS / directory).glob("test_*.py"))


@pytest.fixture
def passes(in_image: Callable[..., Said], tmp_path: Path) -> Passes:
    """Call it with files of tests: it fails where one of them does."""
    _bring(tmp_path)

    def run(names: Sequence[str]) -> None:
        command = f"cd /suite && exec {PYTHON} -m pytest {' '.join([*OPTIONS, *names])}"
        result = in_image(
            ["/bin/sh", "-c", command],
            mounts={
                TESTS: "/suite/tests",
                SCRIPTS: "/suite/scripts",
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
    """Put pytest into ``site``, a directory for the module search path."""
    for name in BROUGHT:
        spec = util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(source.parent, site / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, site)
