"""Build context of the trainer and node images. Pure except for reading files of this machine."""

import hashlib
import io
import os
import ssl
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from orchestrator import packaged_files
from orchestrator.config import Config, Framework
from orchestrator.docker import engine
from orchestrator.errors import NO_SPACE, PreflightError

# Imported by the trainer, outside its package.
SHARED = ("bottleneck", "cpu_usage", "exit_codes", "grace_periods", "launch_layout", "schema", "untrusted_files")
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")
PASSED_ON_AS_IS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
_CA_BUNDLE = "/etc/ssl/orchestrator-ca-bundle.crt"  # not in /tmp, which a Dockerfile may empty
# A user's Dockerfile starts from this image: ONBUILD declares these arguments in it, and leaves none in its image.
_BASE_OF_USER_IMAGE = f"""ARG BASE
FROM ${{BASE}}
COPY ca-bundle.crt {_CA_BUNDLE}
ONBUILD ARG PIP_CERT={_CA_BUNDLE}
ONBUILD ARG SSL_CERT_FILE={_CA_BUNDLE}
"""
_CHUNK = 1 << 20


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
    image = user_image_tag(variant) if variant.dockerfile else variant.user_image or ""
    return _digest(inputs(), variant.base_image, str(variant), image)


def require_dockerfile(image: str | None) -> None:
    """Check that a file is at ``image``, unless this may be the name of an image.

    Raises:
        PreflightError: There is none. Names of images begin with a letter or a digit, and end in lower case.
    """
    path = image or ""
    name = path.rpartition("/")[2].partition("@")[0].partition(":")[0]
    is_path = path.startswith(("/", ".", "~")) or name != name.lower()
    if is_path and not Path(path).expanduser().is_file():
        raise PreflightError(f"image: {image}: no such file", "correct the path, or name an image")


def user_image_tag(variant: Variant) -> str:
    """Return the tag of the image of the variant's Dockerfile, which holds a digest of its base and build context.

    Raises:
        PreflightError: The Dockerfile is gone, or a file in its directory cannot be read.
    """
    dockerfile = Path(str(variant.user_image))
    base = digest(replace(variant, user_image=None))
    with _readable(dockerfile):
        return f"orchestrator-own:{_digest(user_image_inputs(dockerfile), dockerfile.name, base)}"


def _digest(files: Iterable[tuple[str, Path]], *words: str) -> str:
    content = hashlib.sha256("\0".join(words).encode())
    for name, path in files:
        content.update(b"\0" + os.fsencode(name) + b"\0")
        for piece in _kind_and_content(path):
            content.update(piece)
    return content.hexdigest()[:12]


def _kind_and_content(path: Path) -> Iterator[bytes]:
    if path.is_symlink():
        yield b"link\0" + os.fsencode(path.readlink())
    elif path.is_dir():
        yield b"directory"
    else:
        with path.open("rb") as file:
            yield f"{_mode(os.fstat(file.fileno()).st_mode):o}\0".encode()
            while piece := file.read(_CHUNK):
                yield piece


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
    """Yield (name in the build context, local path) of what a build sends of the directory of a user's Dockerfile.

    As with `docker build`, .dockerignore applies, and links are not followed. Git's own directory, which changes with
    every commit, is left out unless .dockerignore has the line `!.git`.

    Raises:
        PreflightError: The Dockerfile is gone.
        OSError: .dockerignore or a directory cannot be read.
    """
    require_dockerfile(str(dockerfile))
    directory = dockerfile.parent
    for name in sorted(engine.sent_paths(directory, [".git", *_ignored(directory)], dockerfile.name)):
        path = directory / name
        if name == dockerfile.name:
            yield name, path.resolve()  # it may be a link out of the directory
        elif path.is_symlink() or path.is_dir() or path.is_file():
            yield name, path


def _ignored(directory: Path) -> list[str]:
    file = directory / ".dockerignore"
    lines = file.read_text("utf-8-sig", "surrogateescape").splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@contextmanager
def _readable(dockerfile: Path | None) -> Iterator[None]:
    """Turn errors of reading the directory of a user's Dockerfile into PreflightError."""
    try:
        yield
    except OSError as error:
        if not dockerfile or error.errno in NO_SPACE:
            raise
        ignore = dockerfile.with_name(".dockerignore")
        raise PreflightError(
            f"image: {str(error.filename or dockerfile.parent)!r}: {error.strerror}",
            f"make it readable for you; or, if the image does not need it, name it in {ignore}",
        ) from error


@contextmanager
def context(dockerfile: Path | None = None) -> Iterator[IO[bytes]]:
    """Create the build context of a user's or the project's Dockerfile as a tar archive, with local CA certificates."""
    with tempfile.TemporaryFile() as file:
        with _readable(dockerfile), tarfile.open(fileobj=file, mode="w") as archive:
            for name, path in user_image_inputs(dockerfile) if dockerfile else inputs():
                archive.add(path, arcname=name, recursive=False, filter=_for_all)
            if not dockerfile:
                archive.add(ca_bundle(), arcname="ca-bundle.crt", filter=_for_all)
        file.seek(0)
        yield file


def base_of_user_image() -> IO[bytes]:
    """Create the build context of the image from which a user's Dockerfile starts, with local CA certificates."""
    file, text = io.BytesIO(), _BASE_OF_USER_IMAGE.encode()
    with tarfile.open(fileobj=file, mode="w") as archive:
        dockerfile = tarfile.TarInfo("Dockerfile")
        dockerfile.size = len(text)
        archive.addfile(dockerfile, io.BytesIO(text))
        archive.add(ca_bundle(), arcname="ca-bundle.crt", filter=_for_all)
    file.seek(0)
    return file


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
