"""Fetch Terraform into a directory, checked against its SHA-256, if neither it nor OpenTofu is installed.

``TERRAFORM_RELEASES`` names a mirror with the same layout as releases.hashicorp.com.
"""

import hashlib
import io
import os
import platform
import shutil
import sys
import urllib.request
import zipfile
from http.client import HTTPException
from pathlib import Path

VERSION = "1.11.4"
# From terraform_1.11.4_SHA256SUMS, as published with the release.
SHA256 = {
    "x86_64": ("amd64", "1ce994251c00281d6845f0f268637ba50c0005657eb3cf096b92f753b42ef4dc"),
    "aarch64": ("arm64", "a43d1d0da9b9bab214a8305a39db0e40869572594ccf50c416a7756499143633"),
}
BY_HAND = "install Terraform (https://developer.hashicorp.com/terraform/install) or OpenTofu (https://opentofu.org)"


def main(directory: Path) -> None:
    """Fetch Terraform into ``directory`` unless it or OpenTofu exists; if that fails, exit with manual instructions."""
    if shutil.which("terraform") or shutil.which("tofu") or os.access(directory / "terraform", os.X_OK):
        return
    if platform.machine() not in SHA256:
        sys.exit(f"setup: no Terraform known for {platform.machine()}: {BY_HAND}")
    architecture, checksum = SHA256[platform.machine()]
    base = os.environ.get("TERRAFORM_RELEASES", "https://releases.hashicorp.com").rstrip("/")
    url = f"{base}/terraform/{VERSION}/terraform_{VERSION}_linux_{architecture}.zip"
    print(f"setup: fetching Terraform {VERSION}")
    try:
        content = urllib.request.urlopen(url, timeout=60).read()
    except (OSError, HTTPException, ValueError) as error:  # a broken connection; no URL
        sys.exit(f"setup: {url} cannot be fetched ({error}): {BY_HAND}")
    digest = hashlib.sha256(content).hexdigest()
    if digest != checksum:
        sys.exit(f"setup: {url} has SHA-256 {digest}, expected {checksum}: {BY_HAND}")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _put(archive.read("terraform"), directory / "terraform")


def _put(content: bytes, path: Path) -> None:
    """Write the file under another name first, so that an incomplete file is never taken for the program."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
