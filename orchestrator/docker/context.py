"""Build context of the trainer and node images. Pure except for reading files of this machine."""

import hashlib
import os
import ssl
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator import assets
from orchestrator.config import Config, Framework
from orchestrator.errors import PreflightError

SHARED = ("bottleneck", "schema", "untrusted_files")  # our modules that the trainer imports from outside its package
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")
PASSED_ON_AS_IS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")


@dataclass(frozen=True)
class Variant:
    """What distinguishes images that are built from the same Dockerfile. ``accelerator`` is "cpu" or "gpu"."""

    base_image: str
    framework: Framework = "tensorflow"
    accelerator: str = "cpu"

    def __str__(self) -> str:
        return f"{self.framework}-{self.accelerator}"


def variant(config: Config, accelerator: str = "cpu") -> Variant:
    """Return the variant that the nodes of ``config`` need, whose GPUs, if any, use ``accelerator``."""
    return Variant(config.local.base_image, config.framework, accelerator)


def tag(target: str, variant: Variant) -> str:
    """Return the tag of the image of ``target`` ("trainer" or "node"), which holds a digest of its build's inputs."""
    return f"orchestrator-{target}:{digest(variant)}"


def digest(variant: Variant) -> str:
    """Compute twelve hexadecimal digits from the variant and the build context.

    The host's CA bundle and proxy are left out: they affect how the build downloads its packages, not which ones.
    """
    content = hashlib.sha256(f"{variant.base_image}\0{variant}".encode())
    for name, path in inputs():
        content.update(f"\0{name}\0{_mode(path.stat().st_mode):o}\0".encode() + path.read_bytes())
    return content.hexdigest()[:12]


def inputs() -> Iterator[tuple[str, Path]]:
    """Yield (name in the build context, local file) of all inputs of the images, in a fixed order."""
    docker = assets.directory("docker")
    for path in sorted(path for path in docker.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        yield str(path.relative_to(docker)), path
    for name in ("__init__", *SHARED, "trainer"):
        module = assets.PACKAGE / f"{name}.py"
        for path in [module] if module.exists() else sorted(module.with_suffix("").rglob("*.py")):
            yield f"orchestrator/{path.relative_to(assets.PACKAGE)}", path


@contextmanager
def context() -> Iterator[IO[bytes]]:
    """Create the build context as a tar archive, with the CA bundle that this machine trusts."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name, path in inputs():
                archive.add(path, arcname=name, filter=_for_all)
            archive.add(_ca_bundle(), arcname="ca-bundle.crt", filter=_for_all)
        file.seek(0)
        yield file


def _for_all(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make a member readable by every account in the image, whatever the umask of the local installation was."""
    member.mode, member.uid, member.gid = _mode(member.mode), 0, 0
    return member


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o111 else 0o644


def _ca_bundle() -> Path:
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
