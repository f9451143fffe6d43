"""scripts/get_terraform.py with a mirror on loopback."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from scripts import get_terraform

PROGRAM = b"#!/bin/sh\necho Terraform\n"


@pytest.fixture(autouse=True)
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve a mirror with the release, and its checksum; hide Terraform on the PATH."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("terraform", PROGRAM)
    version = get_terraform.VERSION
    path = tmp_path / "mirror" / "terraform" / version / f"terraform_{version}_linux_amd64.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(packed.getvalue())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path / "mirror"))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    checksum = hashlib.sha256(packed.getvalue()).hexdigest()
    monkeypatch.setattr(get_terraform, "SHA256", dict.fromkeys(get_terraform.SHA256, ("amd64", checksum)))
    monkeypatch.setenv("TERRAFORM_RELEASES", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PATH", str(tmp_path))
    yield
    server.shutdown()
    server.server_close()


def test_terraform_is_installed_and_executable(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    get_terraform.main(tmp_path / "bin")
    [program] = (tmp_path / "bin").iterdir()
    assert (program.name, program.read_bytes(), program.stat().st_mode & 0o777) == ("terraform", PROGRAM, 0o755)


def test_file_of_an_interrupted_unpacking_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "terraform").write_bytes(PROGRAM[:5])  # not executable yet
    get_terraform.main(tmp_path / "bin")
    assert (tmp_path / "bin" / "terraform").read_bytes() == PROGRAM


def test_existing_terraform_is_kept(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "terraform"
    program.touch(mode=0o755)
    get_terraform.main(tmp_path / "bin")
    assert program.read_bytes() == b""


class Broken(BaseHTTPRequestHandler):
    """A server that closes the connection within the file."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"PK")


def test_broken_download_ends_with_manual_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("TERRAFORM_RELEASES", f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(SystemExit, match=r"cannot be fetched \(IncompleteRead.*: install Terraform"):
        get_terraform.main(tmp_path)
    server.shutdown()
    server.server_close()


def test_mirror_without_a_scheme_ends_with_manual_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRAFORM_RELEASES", "mirror.example.org")
    with pytest.raises(SystemExit, match=r"cannot be fetched .*unknown url type"):
        get_terraform.main(tmp_path)
