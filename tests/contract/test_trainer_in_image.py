"""tests/trainer, run inside the node image: there are TensorFlow and Horovod, and the worker side as nodes have it."""

import shutil
from collections.abc import Callable
from importlib import util
from pathlib import Path

import pytest

from orchestrator import assets
from tests.contract.conftest import PYTHON, Said

TESTS = Path(__file__).parents[1]
INSIDE = "/opt/orchestrator/src/orchestrator"
RECIPES = assets.PACKAGE / "recipes"  # the control side's: what they say of networks is held against these
# pytest and what it imports, all of it pure Python: brought along, for the image has no need of it.
BROUGHT = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
PARTS = 8  # two at a time where there are two cores, and none so long that one of these waits for it
OPTIONS = ("-q", "-p", "no:cacheprovider", "--confcutdir", "tests/trainer", "--rootdir", "/suite", "--durations", "5")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory for the module search path with pytest in it."""
    for name in BROUGHT:
        found = util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        source = Path(found.origin)
        if found.submodule_search_locations:
            shutil.copytree(source.parent, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path)
    return tmp_path


@pytest.mark.parametrize("part", range(PARTS))
def test_the_worker_side_passes_its_tests_where_it_runs(in_image: Callable[..., Said], site: Path, part: int) -> None:
    files = sorted(path.name for path in (TESTS / "trainer").glob("test_*.py"))[part::PARTS]
    names = " ".join(f"tests/trainer/{name}" for name in files)
    command = f"cd /suite && exec {PYTHON} -m pytest {' '.join(OPTIONS)} {names}"
    said = in_image(
        ["/bin/sh", "-c", command],
        mounts={TESTS: "/suite/tests", site: "/site", RECIPES: f"{INSIDE}/recipes"},
        PYTHONPATH="/suite:/site",
        PYTHONDONTWRITEBYTECODE="1",
    )
    print(said.text)
    assert said.code == 0, said.text
