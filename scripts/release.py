"""Build and check a release: ``make release VERSION=X.Y.Z`` → dist/. Publishes nothing.

A release whose build or check fails leaves ``orchestrator/__init__.py`` and ``CHANGELOG.md`` as they were.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
VERSION_FILE, CHANGELOG = Path("orchestrator/__init__.py"), Path("CHANGELOG.md")
HEADING = "## Unreleased\n"
COMMANDS = (["models"], ["datasets"], ["init"], ["plan", "--help"])  # none of them needs Docker or a cloud


def refuse(root: Path, version: str) -> None:
    """Exit with the reason if ``version`` cannot be released from the checkout ``root``."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"release: VERSION is {version!r}, expected X.Y.Z: make release VERSION=1.2.3")
    if changed := git(root, "status", "--porcelain"):
        sys.exit(f"release: the checkout has changes; commit or stash them:\n{changed}")
    if git(root, "tag", "--list", f"v{version}"):
        sys.exit(f"release: tag v{version} exists; take the next version")


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.rstrip()


def versioned(text: str, version: str) -> str:
    """Return the text of ``orchestrator/__init__.py`` with ``version``."""
    return re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, count=1, flags=re.MULTILINE)


def changelog(text: str, version: str, date: str) -> str:
    """Rename the section "Unreleased" of the changelog to ``version (date)``, and add an empty one above it.

    Args:
        text: The changelog.
        version: The version to release.
        date: The day of the release.

    Returns:
        The new changelog.
    """
    before, heading, rest = text.partition(HEADING)
    if not heading or not re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip():
        sys.exit('release: CHANGELOG.md has nothing under "## Unreleased"; write what changed for users')
    return f"{before}{HEADING}\n## {version} ({date})\n{rest}"


@contextmanager
def restored_on_failure(*paths: Path) -> Iterator[None]:
    before = {path: path.read_text() for path in paths}
    try:
        yield
    except BaseException:
        for path, text in before.items():
            path.write_text(text)
        raise


def build(root: Path) -> list[Path]:
    """Build the wheel and the sdist into an empty ``dist/``; exit if the sdist has files that git does not have."""
    shutil.rmtree(root / "dist", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"], cwd=root, check=True)
    packages = sorted((root / "dist").iterdir())
    if unknown := unknown_files(root, next(path for path in packages if path.name.endswith(".tar.gz"))):
        sys.exit(f"release: the sdist has files that are not in git: {', '.join(unknown[:5])}: remove or ignore them")
    return packages


def unknown_files(root: Path, sdist: Path) -> list[str]:
    """Return the files of an sdist that the checkout ``root`` does not have in git."""
    known = {"PKG-INFO", *git(root, "ls-files").splitlines()}
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    return sorted(set(names) - known)


def check(package: Path, version: str) -> None:
    """Install ``package`` into a fresh environment, as a user does, and run its command outside the checkout."""
    print(f"release: installing {package.name} into a fresh environment", flush=True)
    with TemporaryDirectory() as directory:
        venv.create(f"{directory}/venv", with_pip=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment |= {"HOME": directory, "XDG_STATE_HOME": f"{directory}/state"}

        def run(*command: str) -> str:
            return subprocess.run(
                [f"{directory}/venv/bin/{command[0]}", *command[1:]],
                cwd=directory,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout

        run("pip", "install", "--quiet", "--disable-pip-version-check", str(package))
        if (printed := run("orchestrator", "--version")) != f"orchestrator {version}\n":
            sys.exit(f"release: {package.name} prints {printed!r}, expected version {version}")
        for arguments in COMMANDS:
            run("orchestrator", *arguments)


def release(root: Path, version: str) -> None:
    refuse(root, version)
    init, changes = root / VERSION_FILE, root / CHANGELOG
    with restored_on_failure(init, changes):
        changes.write_text(changelog(changes.read_text(), version, datetime.now(timezone.utc).date().isoformat()))
        init.write_text(versioned(init.read_text(), version))
        packages = build(root)
        for package in packages:
            check(package, version)
    names = " and ".join(f"dist/{path.name}" for path in packages)
    print(f"release: checked {names}; nothing is published. Next:")
    print(f"  git commit --all --message 'Release {version}' && git tag --annotate v{version} --message {version}")


if __name__ == "__main__":
    release(ROOT, sys.argv[1] if len(sys.argv) == 2 else "")
