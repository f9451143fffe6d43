"""Docker Engine: unreachable, forbidden, chosen by a context, and its errors (from a stand-in on loopback)."""

import datetime
import hashlib
import io
import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from orchestrator.docker import cluster_resources, images
from orchestrator.docker.engine import Engine
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import Connect


def test_stopped_docker_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:  # leaves the file of a socket on which no process listens
        server.bind(str(dead))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{dead}")
    with pytest.raises(PreflightError, match=f"does not answer at unix://{dead}") as caught:
        Engine()
    assert caught.value.exit_code == 2
    assert "systemctl start docker" in caught.value.hint


def test_engine_at_a_closed_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(PreflightError, match="does not answer"):
        Engine()


@pytest.fixture
def docker_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write the configuration of a ``docker`` whose current context "gone" has been removed."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    (tmp_path / "config.json").write_text('{"currentContext": "gone"}')
    return tmp_path


@pytest.mark.parametrize(
    ("chosen", "missing_context", "remedy"),
    [("", "'gone'", "`docker context use default`"), ("typo", "'typo'", "`unset DOCKER_CONTEXT`")],
)
@pytest.mark.usefixtures("docker_settings")
def test_missing_context_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, chosen: str, missing_context: str, remedy: str
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", chosen)
    with pytest.raises(PreflightError, match=f"Docker has no context {missing_context}") as caught:
        Engine()
    assert caught.value.hint == remedy


def test_engine_of_the_environments_context_is_used(monkeypatch: pytest.MonkeyPatch, docker_settings: Path) -> None:
    with docker_stand_in.listening({}) as address:
        meta = context_file(docker_settings, "meta", "meta.json")
        meta.write_text(json.dumps({"Name": "lab", "Metadata": {}, "Endpoints": {"docker": {"Host": address}}}))
        monkeypatch.setenv("DOCKER_CONTEXT", "lab")
        assert Engine().host == address


def context_file(docker_settings: Path, kind: str, name: str) -> Path:
    """Return the path of a file of the context "lab", and create its directory."""
    path = docker_settings / "contexts" / kind / hashlib.sha256(b"lab").hexdigest() / name
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Write one certificate for loopback, which the engine and its user show and trust."""
    directory, key, name = (
        tmp_path / "certificates",
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lab")]),
    )
    directory.mkdir()
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(hours=1))
    certificate = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    for file in ("ca.pem", "cert.pem"):
        (directory / file).write_bytes(certificate.public_bytes(Encoding.PEM))
    (directory / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return directory


@pytest.fixture
def tls_address(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> Iterator[str]:
    """Yield the address of an engine that answers only over TLS, and only to its user's certificate."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which requests prefers to the SDK's settings
        monkeypatch.delenv(name, raising=False)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    tls.load_verify_locations(certificates / "ca.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    with docker_stand_in.listening({}, tls=tls) as address:
        yield address


def test_tls_settings_of_the_environment_are_used(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, tls_address: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", tls_address)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))
    assert Engine().cpus == 4
    assert Engine().patient.info()["NCPU"] == 4


def test_certificates_of_a_context_are_used(
    monkeypatch: pytest.MonkeyPatch, docker_settings: Path, certificates: Path, tls_address: str
) -> None:
    endpoints = {"docker": {"Host": tls_address, "SkipTLSVerify": False}}
    meta = {"Name": "lab", "Metadata": {}, "Endpoints": endpoints}
    context_file(docker_settings, "meta", "meta.json").write_text(json.dumps(meta))
    certificates.rename(context_file(docker_settings, "tls", "docker"))
    monkeypatch.setenv("DOCKER_CONTEXT", "lab")
    assert Engine().cpus == 4


def test_tls_without_an_address_means_dockers_port(
    monkeypatch: pytest.MonkeyPatch, docker_settings: Path, certificates: Path
) -> None:
    (docker_settings / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))
    with pytest.raises(PreflightError, match="does not answer at tcp://localhost:2376"):
        Engine()


def test_missing_certificates_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(PreflightError, match=f"{tmp_path} lacks ca.pem, cert.pem or key.pem") as caught:
        Engine()
    assert "unset DOCKER_TLS_VERIFY" in caught.value.hint


def test_engine_reports_its_resources(engine: Connect) -> None:
    connected = engine()
    assert (connected.cpus, connected.memory, connected.data_root) == (4, 8 << 30, Path("/nowhere"))


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (cluster_resources.owned, "docker ps"),
        (cluster_resources.networks, "docker network ls"),
        (lambda engine: images.find(engine, "node:1"), "docker image inspect node:1"),
        (lambda engine: cluster_resources.remove(engine, "volume", "v1"), "docker volume rm v1"),
        (lambda engine: images.load_root_filesystem(engine, io.BytesIO(b"tar"), "base:1"), "docker import - base:1"),
        (lambda engine: list(images.build(engine, io.BytesIO(b""), "node:1", "node", {})), "docker build --tag node:1"),
    ],
)
def test_engine_error_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Engine], object], command: str
) -> None:
    objects = (500, [{"message": "the disk is upside down"}])
    paths = ("/containers/json", "/networks", "/images/node:1/json", "/volumes/v1", "/images/create", "/build")
    with docker_stand_in.listening(dict.fromkeys(paths, objects)) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CommandFailed, match="the disk is upside down") as caught:
            ask(Engine())
    assert f"`{command}`" in caught.value.message
