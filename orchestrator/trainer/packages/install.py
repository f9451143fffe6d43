"""Make an overlay on the head, as ``python -m orchestrator.trainer.packages.install DIRECTORY``.

Standard input has a line, a :class:`PackagesRequest`, and stays open: if it is closed, the user no longer waits for the
packages, and they are removed. Standard output has lines, each a :class:`PackagesMessage`.
"""

import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from orchestrator.schema.packages import Overlay, PackagesMessage, PackagesProblem, PackagesRequest
from orchestrator.trainer.packages import conflicts_with_image, overlays, pip


def main(directory: Path) -> int:
    """Install, or find that it is installed already; return the exit code."""
    request = PackagesRequest.model_validate_json(sys.stdin.buffer.readline())
    try:
        with overlays.locked(directory, lambda: tell(PackagesMessage(say="waiting for another installation"))):
            overlay = directory / request.hash
            tell(PackagesMessage(overlay=overlays.read(overlay) or make(overlay, request)))
    except pip.Failed as error:
        tell(PackagesMessage(problem=error.problem))
    except (pip.Abandoned, BrokenPipeError):
        return 1
    return 0


def make(overlay: Path, request: PackagesRequest) -> Overlay:
    """Install into a new overlay; nothing of it stays if that fails.

    Raises:
        Failed: A package does not fit the image, or pip failed.
        Abandoned: Standard input was closed.
    """
    request = with_dependencies(request)
    image = conflicts_with_image.protected(*overlays.image_sites())
    conflicts = conflicts_with_image.conflicts([*request.requirements, *request.constraints], image)
    if conflicts:
        raise pip.Failed(PackagesProblem(kind="conflict", conflicts=conflicts))
    try:
        overlays.begin(overlay, image.aliases, request.base)
        pip.install(overlay, request, image, lambda line: tell(PackagesMessage(say=line)))
        _require_unreplaced(overlay, image)
        return overlays.finish(overlay, request, image.aliases)
    except BaseException:
        overlays.remove(overlay)
        raise


def with_dependencies(request: PackagesRequest) -> PackagesRequest:
    """Add the dependencies of the request's pyproject.toml to its requirements. Raises Failed if they are not there."""
    try:
        project = pip.read_toml(request.pyproject or "").get("project", {})
        if "dependencies" in project.get("dynamic", []):
            raise ValueError("dependencies are dynamic, and there is no [build-system] to compute them")
        lines = [*request.requirements, *project.get("dependencies", [])]
        return PackagesRequest.model_validate({**request.model_dump(), "requirements": lines})
    except (ValueError, AttributeError, TypeError) as error:
        raise pip.Failed(PackagesProblem(kind="failed", lines=[f"{request.source}: {error}"[:1000]])) from error


def _require_unreplaced(overlay: Path, image: conflicts_with_image.Protected) -> None:
    """Check that pip installed no second version of a protected package of the image."""
    names = {canonicalize_name(name): version for name, version in overlays.installed(overlay).items()}
    replaced = [f"{name} {names[name]} was installed" for name in names if name in image.exact.keys() - image.aliases]
    if replaced:
        raise pip.Failed(PackagesProblem(kind="failed", lines=replaced))


def tell(message: PackagesMessage) -> None:
    """Write a line for the control side."""
    print(message.model_dump_json(exclude_none=True), flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
