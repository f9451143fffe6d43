"""Build context of the trainer and node images. Pure except for reading files of this machine."""

import hashlib
import os
import ssl
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator import packaged_files
from orchestrator.config import Config, Framework
from orchestrator.errors import PreflightError

# Imported by the trainer, outside its package.
SHARED = ("bottleneck", "cpu_usage", "exit_codes", "grace_periods", "launch_layout", "schema", "untrusted_files")
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")
PASSED_ON_AS_IS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")


@dataclass(frozen=True)
class Variant:
    """Choices that distinguish images built from the same files.

    ``accelerator`` is "cpu" or "gpu"; ``user_image`` is the name of the user's image, or the absolute path of its
    Dockerfile.
    """

    base_image: str
    framework: Framework = "tensorflow"
    accelerator: str = "cpu"
    user_image: str | None = None

    @property
    def dockerfile(self) -> Path | None:
        """The Dockerfile of the user's image, if it is not an image that exists already."""
        return Path(self.user_image) if self.user_image and Path(self.user_image).is_absolute() else None

    def __str__(self) -> str:
        return f"{self.framework}-{self.accelerator}"


def variant(config: Config, accelerator: str = "cpu") -> Variant:
    """Return the variant that the nodes of ``config`` need, whose GPUs, if any, use ``accelerator``."""
    return Variant(config.local.base_image, config.framework, accelerator, config.image)


def tag(target: str, variant: Variant) -> str:
    """Return the tag of the image of ``target`` ("trainer" or "node"), which holds a digest of its build's inputs."""
    return f"orchestrator-{target}:{digest(variant)}"


def digest(variant: Variant) -> str:
    """Compute twelve hexadecimal digits from the variant and the build context.

    The host's CA bundle and proxy are left out: they affect how the build downloads its packages, not which ones.
    """
    image = user_image_tag(variant.dockerfile) if variant.dockerfile else variant.user_image or ""
    return _digest(inputs(), variant.base_image, str(variant), image)


def user_image_tag(dockerfile: Path) -> str:
    """Return the tag of the image of a user's Dockerfile, which holds a digest of all files in its directory."""
    return f"orchestrator-own:{_digest(user_image_inputs(dockerfile), dockerfile.name)}"


def _digest(files: Iterable[tuple[str, Path]], *words: str) -> str:
    content = hashlib.sha256("\0".join(words).encode())
    for name, path in files:
        content.update(f"\0{name}\0{_mode(path.stat().st_mode):o}\0".encode() + path.read_bytes())
    return content.hexdigest()[:12]


def inputs() -> Iterator[tuple[str, Path]]:
    """Yield (name in the build context, local file) of all inputs of the images, in a fixed order."""
    docker = packaged_files.directory("docker")
    for path in sorted(path for path in docker.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        yield str(path.relative_to(docker)), path
    for name in ("__init__", *SHARED, "trainer"):
        module = packaged_files.PACKAGE / f"{name}.py"
        for path in [module] if module.exists() else sorted(module.with_suffix("").rglob("*.py")):
            yield f"orchestrator/{path.relative_to(packaged_files.PACKAGE)}", path


def user_image_inputs(dockerfile: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name in the build context, local file) of all files in the directory of a user's Dockerfile.

    Raises:
        PreflightError: The Dockerfile is gone.
    """
    if not dockerfile.is_file():
        raise PreflightError(f"image: {dockerfile}: no such file", "correct the path, or name an image")
    directory = dockerfile.parent
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        if not path.relative_to(directory).parts[0].startswith(".git"):
            yield str(path.relative_to(directory)), path


@contextmanager
def context(dockerfile: Path | None = None) -> Iterator[IO[bytes]]:
    """Create the build context of a user's or the project's Dockerfile as a tar archive, with local CA certificates."""
    files = list(user_image_inputs(dockerfile) if dockerfile else inputs())
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name, path in files:
                archive.add(path, arcname=name, filter=_for_all)
            if not dockerfile:
                archive.add(ca_bundle(), arcname="ca-bundle.crt", filter=_for_all)
        file.seek(0)
        yield file


def _for_all(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make a member readable by every account in the image, whatever the umask of the local installation was."""
    member.mode, member.uid, member.gid = _mode(member.mode), 0, 0
    return member


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o111 else 0o644


def ca_bundle() -> Path:
    """Return the file of the CA certificates that this machine trusts. Raises PreflightError if there is none."""
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        path = os.environ.get(variable)
        if path and not Path(path).exists():
            raise PreflightError(f"{variable}: {path}: no such file", f"correct it, or unset {variable}")
    paths = ssl.get_default_verify_paths()
    usual = "/etc/ssl/certs/ca-certificates.crt"
    candidates = [os.environ.get("SSL_CERT_FILE"), os.environ.get("REQUESTS_CA_BUNDLE"), usual, paths.cafile]
    bundles = [Path(path).resolve() for path in candidates if path and Path(path).is_file()]
    if not bundles:
        raise PreflightError("no CA certificates on this machine", "`sudo apt-get install ca-certificates`")
    return bundles[0]


def host_settings() -> dict[str, str]:
    """Return proxy and package index of this machine, as build arguments."""
    upper = {name: os.environ.get(name) or os.environ.get(name.lower()) for name in PASSED_ON}
    both = {**upper, **{name.lower(): value for name, value in upper.items()}}
    both |= {name: os.environ.get(name) for name in PASSED_ON_AS_IS}
    return {name: value for name, value in both.items() if value}
