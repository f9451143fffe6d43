"""Where terraform/, ansible/, infra/ and docker/ are: inside the installed package, or beside it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def directory(name: str) -> Path:
    inside = PACKAGE / "assets" / name
    return inside if inside.is_dir() else PACKAGE.parent / name
