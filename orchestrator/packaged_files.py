"""Find terraform/, ansible/, infra/ and docker/: in the installed package, or next to it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def directory(name: str) -> Path:
    """Return the path of one of these directories."""
    inside = PACKAGE / "assets" / name
    return inside if inside.is_dir() else PACKAGE.parent / name
