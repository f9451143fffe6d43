"""Wheels, and a Python that claims to be the image's, for tests of packages with the real pip."""

import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator import packaged_files

HOROVOD = ("cloudpickle", 'tensorflow ; extra == "tensorflow"')


def wheel(directory: Path, name: str, version: str, requires: Sequence[str] = (), program: bool = False) -> Path:
    """Write a wheel with a module that has VERSION, and with a console script of its name if ``program``."""
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n\n\ndef main():\n    print(VERSION)\n")
        archive.writestr(f"{info}/METADATA", metadata(name, version, requires))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n" if program else "")
        archive.writestr(f"{info}/RECORD", "")
    return path


def metadata(name: str, version: str, requires: Sequence[str] = (), extras: Sequence[str] = ()) -> str:
    lines = [*(f"Provides-Extra: {extra}" for extra in extras), *(f"Requires-Dist: {need}" for need in requires)]
    return "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""])


def image(directory: Path) -> Path:
    """Create a virtual environment that claims to have TensorFlow for CPUs and Horovod; return its Python."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    (site / "ours.pth").write_text(f"{packaged_files.PACKAGE.parent}\n{sysconfig.get_path('purelib')}\n")
    _installed(site, "tensorflow-cpu", "2.21.0", ["numpy>=1.26", "requests<3,>=2.21", "keras>=3.12"], pure=False)
    _installed(site, "numpy", "2.4.6", pure=False)
    _installed(site, "keras", "3.15.1")
    _installed(site, "requests", "2.34.2")
    _installed(site, "cloudpickle", "3.1.2")
    _installed(site, "rich", "15.0.0")
    _installed(site, "horovod", "0.28.1", HOROVOD, pure=False, extras=["tensorflow"])
    return directory / "bin" / Path(sys.executable).name


def _installed(
    site: Path, name: str, version: str, requires: Sequence[str] = (), pure: bool = True, extras: Sequence[str] = ()
) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(name, version, requires, extras))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\n")
    (info / "RECORD").touch()
