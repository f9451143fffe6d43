"""Write the licences of all locked packages to docs/licences.md: ``python -m scripts.write_licences [DIRECTORY...]``.

Licences are read from the metadata of packages that are installed on this machine, and of packages that are installed
or lie as wheels in each DIRECTORY, such as the site-packages of an image. A package without metadata keeps its row.
"""

import re
import sys
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEADING = "| Python package | licence | installed into |\n|---|---|---|\n"
LOCKS = {
    "command": "requirements/cli.txt",
    "development": "requirements/development.txt",
    "build": "requirements/build.txt",
    "lock": "requirements/uv.txt",
    "TensorFlow's CPU image": "docker/requirements-tensorflow-cpu.txt",
    "TensorFlow's GPU image": "docker/requirements-tensorflow-gpu.txt",
    "PyTorch's CPU image": "docker/requirements-pytorch-cpu.txt",
    "PyTorch's GPU image": "docker/requirements-pytorch-gpu.txt",
    "the image of both": "docker/requirements-both-cpu.txt",
    "build of TensorFlow's GPU image": "docker/cuda-tensorflow.txt",
    "build of PyTorch's GPU image": "docker/cuda-pytorch.txt",
    "images of your own": "docker/requirements-worker.txt",
    "images": "docker/horovod.txt",
}


def locked() -> dict[str, list[str]]:
    """Return the uses of each locked package; "development" is left out for the command's packages, since it includes
    them.
    """
    uses_of: dict[str, list[str]] = {}
    for use, path in LOCKS.items():
        for name in set(re.findall(r"^([\w.-]+)==", (ROOT / path).read_text(), re.MULTILINE)):
            uses_of.setdefault(canonicalize_name(name), []).append(use)
    return {
        name: [use for use in uses if (use, uses[0]) != ("development", "command")] for name, uses in uses_of.items()
    }


def rows() -> dict[str, str]:
    """Return the licence of each package on the page."""
    table = PAGE.read_text().partition(HEADING)[2]
    return {name: licence for name, licence, _ in re.findall(r"^\| (\S+) \| (.*?) \| (.*?) \|$", table, re.MULTILINE)}


def licence(metadata: Message) -> str:
    """Return the SPDX expression, else the classifiers, else the first line of the free text."""
    classifiers = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier", []) if c.startswith("License :: ")]
    free = (metadata.get("License") or "").strip().partition("\n")[0]
    return str(metadata.get("License-Expression") or ", ".join(classifiers) or free)


def metadata_in(directories: list[str]) -> Iterator[Message]:
    installed = distributions(path=[*sys.path, *directories])
    yield from (distribution.metadata for distribution in installed)  # type: ignore[misc]
    for wheel in (path for directory in directories for path in sorted(Path(directory).glob("*.whl"))):
        with ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            yield Parser().parsestr(archive.read(name).decode())


def page(directories: list[str]) -> str:
    """Return the page with the current table. Raises SystemExit naming packages with unknown licences."""
    licences = {canonicalize_name(about["Name"]): licence(about) for about in metadata_in(directories)}
    every = rows() | {name: text for name, text in licences.items() if text}
    uses = locked()
    if unknown := sorted(name for name in uses if not every.get(name)):
        sys.exit(f"no licence known of {', '.join(unknown)}: name a directory with their wheels, or add their rows")
    table = "".join(f"| {name} | {every[name]} | {', '.join(uses[name])} |\n" for name in sorted(uses))
    return PAGE.read_text().partition(HEADING)[0] + HEADING + table


if __name__ == "__main__":
    PAGE.write_text(page(sys.argv[1:]))
