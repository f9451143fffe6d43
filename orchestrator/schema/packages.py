"""Models of Python packages that are installed for runs on the storage that all nodes share."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from orchestrator.schema.data import Size
from orchestrator.schema.file_model import File, Time

MANIFEST = "packages.json"  # in the directory of a complete overlay
OverlayHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Words = Annotated[str, StringConstraints(max_length=1000)]


class PackagesRequest(File):
    """Packages to install into an overlay; it crosses on standard input, since ``environment`` may hold passwords.

    ``requirements`` and ``constraints`` are lines of pip's files of that name. ``asked`` are the lines as the user
    wrote them, and ``pyproject`` is the text of a pyproject.toml whose dependencies are asked for. ``environment``
    holds settings of pip and proxies, ``certificates`` a CA bundle, ``wheels`` a directory of the only files to use.
    """

    hash: OverlayHash
    base: OverlayHash
    source: str
    asked: list[str]
    requirements: list[str]
    constraints: list[str]
    pyproject: str | None = None
    wheels: str | None = None
    environment: dict[str, str]
    certificates: str


class Overlay(File):
    """Manifest of a complete overlay: ``packages`` are the installed versions. It is written last.

    Overlays with the same ``base`` differ in the code of local packages alone.
    """

    hash: OverlayHash
    base: OverlayHash
    source: Words
    asked: list[Words]
    packages: dict[PackageName, Words]
    bytes: Size
    made: Time


class Installed(File):
    """Content of packages.json in a run's directory: versions in the image, and in the overlay that the run used."""

    image: dict[PackageName, Words]
    overlay: dict[PackageName, Words] = Field({})


class Overlays(File):
    """All complete overlays of a cluster."""

    overlays: list[Overlay]


class PackageConflict(File):
    """Package of which another version is asked for than the image has; ``needed_by`` is the framework that needs it.

    ``by`` is the package that asks for ``wanted``; None if the user does.
    """

    name: PackageName
    wanted: Words
    by: Words | None = None
    installed: Words
    needed_by: PackageName


class PackagesProblem(File):
    """Reason why packages were not installed, with the last ``lines`` of pip.

    The index is "offline", a package is "missing" from it, a version is in "conflict" with the image, or pip "failed".
    """

    kind: Literal["conflict", "missing", "offline", "failed"]
    conflicts: list[PackageConflict] = Field([])
    package: Words = ""
    lines: list[Words] = Field([], max_length=100)


class PackagesMessage(File):
    """Line of the installing program: progress to ``say``, at the end the ``overlay`` or the ``problem``."""

    say: str | None = None
    overlay: Overlay | None = None
    problem: PackagesProblem | None = None
