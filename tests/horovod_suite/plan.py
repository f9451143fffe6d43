"""The runs of Horovod's tests, by launcher, Keras and framework."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config import Framework

# Files that import PyTorch; the others run in the image with TensorFlow.
PYTORCH = (
    "test_adasum_pytorch.py",
    "test_elastic_torch.py",
    "test_interactiverun.py",
    "test_stall.py",
    "test_timeline.py",
    "test_torch.py",
    "test_torch_elastic.py",
)
KERAS_TESTS = ("test_tensorflow.py", "test_tensorflow2_keras.py", "test_tensorflow2_keras_process_sets.py")
# Files outside of parallel/ whose tests need a launcher's ranks too.
IN_RANKS = ("test_stall.py",)
# The most important files run first.
FIRST = (*KERAS_TESTS, "test_tensorflow_process_sets.py")


@dataclass(frozen=True)
class Run:
    """One file of tests, in a process of its own on each rank.

    ``transport`` is "gloo" or "mpi", or "" if the tests start Horovod themselves; ``keras`` is 3 or 2, with TensorFlow.
    """

    file: str
    transport: str = ""
    keras: int = 3

    @property
    def framework(self) -> Framework:
        """Return the framework of the image."""
        return "pytorch" if Path(self.file).name in PYTORCH else "tensorflow"

    @property
    def framework_name(self) -> str:
        """Return the framework for people: Keras 3, Keras 2 or PyTorch."""
        return "PyTorch" if self.framework == "pytorch" else f"Keras {self.keras}"

    @property
    def name(self) -> str:
        """Return a name for files."""
        suffix = self.framework_name.lower().replace(" ", "")
        return "-".join(filter(None, [Path(self.file).stem, self.transport, suffix]))


def runs(source: Path) -> Iterator[Run]:
    """Yield every run of the test files in a directory with Horovod's sources."""
    tests = sorted((source / "test").glob("*/test_*.py"), key=_order)
    for transport in ("gloo", "mpi"):
        for path in (path for path in tests if _in_ranks(path)):
            yield from (Run(_relative(path), transport, keras) for keras in _keras(path))
    for path in (path for path in tests if not _in_ranks(path)):
        yield Run(_relative(path))


def _in_ranks(path: Path) -> bool:
    return path.parent.name == "parallel" or path.name in IN_RANKS


def _order(path: Path) -> tuple[str, int, str]:
    place = FIRST.index(path.name) if path.name in FIRST else len(FIRST)
    return {"parallel": "0", "single": "1"}.get(path.parent.name, "2"), place, path.name


def _relative(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _keras(path: Path) -> tuple[int, ...]:
    return (3, 2) if path.name in KERAS_TESTS else (3,)
