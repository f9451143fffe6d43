"""Overlays: directories with packages on top of the image's. Each is a virtual environment of the image's Python.

An overlay is complete if it has a manifest, which is written last and removed first. One change is made at a time,
under a lock. So an overlay needs no other name while it is made, and the paths in its programs are right.
"""

import json
import os
import re
import shutil
import site
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from orchestrator.launch_layout import SEARCH_PATH
from orchestrator.schema import bounded_files
from orchestrator.schema.file_lock import try_lock
from orchestrator.schema.hard_links import link_or_copy
from orchestrator.schema.packages import MANIFEST, Overlay, PackagesRequest

LOCK, KERNELS, INCOMING = ".lock", ".jupyter/kernels", ".incoming-*"
IMAGE = "image.pth"
STALE_SECONDS = 86400.0  # of files that a command sent before it was killed


def image_sites() -> list[Path]:
    """Return the directories of the image's packages, in order: this program runs on the image's Python.

    Python of Debian and Ubuntu has several: those of pip and of apt.
    """
    return [Path(directory) for directory in site.getsitepackages()]


def packages_directory(overlay: Path) -> Path:
    """Return the directory of an overlay's packages."""
    return Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(overlay)}))


@contextmanager
def locked(directory: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on all overlays in ``directory``; ``on_wait`` is called again and again while another holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a") as file:
        while not try_lock(file):
            on_wait()
            time.sleep(1.0)
        yield


def read(overlay: Path) -> Overlay | None:
    """Return the manifest of a complete overlay; None if there is none, or it cannot be read."""
    try:
        return bounded_files.read_model(overlay / MANIFEST, Overlay)
    except (FileNotFoundError, bounded_files.Unreadable):
        return None


def every(directory: Path) -> list[Overlay]:
    """Return the manifests of all complete overlays, oldest first."""
    overlays = [overlay for path in directories(directory) if (overlay := read(path)) is not None]
    return sorted(overlays, key=lambda overlay: overlay.made)


def directories(directory: Path) -> list[Path]:
    """Return the directories of all overlays, complete or not."""
    return [path for path in directory.glob("*") if re.fullmatch("[0-9a-f]{12}", path.name)]


def begin(overlay: Path, aliases: Mapping[str, str], base: str) -> None:
    """Begin an overlay in place of an unfinished one: with the packages of another of the same base, else empty.

    Args:
        overlay: Directory of the overlay.
        aliases: Versions of names that count as installed.
        base: Base of the overlay.
    """
    remove(overlay)
    for leftover in overlay.parent.glob(INCOMING):
        if time.time() - leftover.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(leftover, ignore_errors=True)
    same = [other.hash for other in every(overlay.parent) if other.base == base]
    if same:
        _copy(overlay.with_name(same[-1]), overlay)
    else:
        _create(overlay, aliases)


def _create(overlay: Path, aliases: Mapping[str, str]) -> None:
    """Make an empty overlay. pip and importlib.metadata find the image's packages too, behind those of the overlay."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(overlay)
    lines = [f"import site; site.addsitedir({str(directory)!r})\n" for directory in image_sites()]
    (packages_directory(overlay) / IMAGE).write_text("".join(lines))
    for name, version in aliases.items():
        info = packages_directory(overlay) / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("orchestrator\n")
        (info / "RECORD").touch()


def _copy(source: Path, overlay: Path) -> None:
    """Copy an overlay, its files by hard links: pip replaces files and never changes them. Programs name its path."""

    def ignored(directory: str, _: list[str]) -> set[str]:
        return {MANIFEST} if Path(directory) == source else set()  # packages may have files of that name

    shutil.copytree(source, overlay, symlinks=True, copy_function=link_or_copy, ignore=ignored)
    for program in (path for path in (overlay / "bin").iterdir() if path.is_file() and not path.is_symlink()):
        content, mode = program.read_bytes(), program.stat().st_mode
        program.unlink()
        program.write_bytes(content.replace(bytes(source), bytes(overlay)))
        program.chmod(mode)


def finish(overlay: Path, request: PackagesRequest, aliases: Mapping[str, str]) -> Overlay:
    """Write the manifest and the notebook kernel of an overlay whose packages are installed.

    Args:
        overlay: Directory of the overlay.
        request: What was asked for.
        aliases: As for :func:`begin`.

    Returns:
        The manifest.
    """
    manifest = Overlay(
        hash=overlay.name,
        base=request.base,
        source=request.source[:1000],
        asked=[line[:1000] for line in request.asked],
        packages={name: version for name, version in installed(overlay).items() if name not in aliases},
        bytes=sum(Path(base, name).lstat().st_size for base, _, names in os.walk(overlay) for name in names),
        made=time.time(),
    )
    manifest.write(overlay / MANIFEST)
    _write_kernel(overlay, manifest.source)
    return manifest


def installed(overlay: Path) -> dict[str, str]:
    """Return the versions of the packages in an overlay itself."""
    distributions = metadata.distributions(path=[str(packages_directory(overlay))])
    return dict(sorted((name, dist.version) for dist in distributions if (name := dist.metadata["Name"])))


def _write_kernel(overlay: Path, source: str) -> None:
    kernel = {
        "display_name": f"Python 3 with {source} ({overlay.name})",
        "language": "python",
        "argv": [f"{overlay}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "env": {"PATH": f"{overlay}/bin:{SEARCH_PATH}"},
    }
    directory = overlay.parent / KERNELS / overlay.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(kernel, indent=2) + "\n")


def remove(overlay: Path) -> None:
    """Remove an overlay, complete or not, and its notebook kernel. The lock must be held."""
    (overlay / MANIFEST).unlink(missing_ok=True)
    for path in (overlay.parent / KERNELS / overlay.name, overlay):
        if path.exists():
            shutil.rmtree(path)
