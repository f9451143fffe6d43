"""The images' inputs: which files change their digest, and which files go into a build."""

import errno
import os
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.config import Config
from orchestrator.docker import context
from orchestrator.docker.context import Variant
from orchestrator.errors import PreflightError
from tests.conftest import Missing

BASE = Variant("debian:12-slim")
# Prints the digest of a checkout, then again after a change of each given file.
DIGESTS = """
import pathlib, sys
from orchestrator.docker import context
variant = context.Variant("debian:12-slim")
print(context.digest(variant))
for name in sys.argv[1:]:
    path = pathlib.Path(name)
    path.chmod(0o755) if path.name == "node-init" else path.write_text(path.read_text() + "# changed")
    print(context.digest(variant))
"""


def digests_of_a_copy(directory: Path, *changed: str) -> list[str]:
    """Return the digests of a copy of this checkout: unchanged, then after each change."""
    for folder in (packaged_files.PACKAGE, packaged_files.directory("docker")):
        shutil.copytree(folder, directory / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "docker" / "node-init").chmod(0o644)
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    command = [sys.executable, "-c", DIGESTS, *changed]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_image_has_every_module_of_the_worker_side() -> None:
    inside = {path for name, path in context.inputs() if name.startswith("orchestrator/trainer/")}
    assert inside == set((packaged_files.PACKAGE / "trainer").rglob("*.py"))
    assert any(path.parent.name == "models" for path in inside)


def test_digest_follows_exactly_the_inputs_of_the_images(tmp_path: Path) -> None:
    shared = ("orchestrator/bottleneck.py", "orchestrator/schema/results.py")
    made_of = ("docker/Dockerfile", "docker/node-init", "orchestrator/trainer/supervision/rank_wrapper.py", *shared)
    digests = digests_of_a_copy(tmp_path, *made_of, "orchestrator/cluster.py", "orchestrator/recipes/resnet50.yaml")
    of_ours = 1 + len(made_of)
    assert len(set(digests[:of_ours])) == of_ours
    assert set(digests[of_ours:]) == {digests[of_ours - 1]}


def test_other_base_image_has_another_digest() -> None:
    assert context.digest(BASE) != context.digest(Variant("debian:12"))
    assert context.tag("node", BASE) == f"orchestrator-node:{context.digest(BASE)}"


def test_gpu_image_has_another_digest() -> None:
    gpu = Variant("debian:12-slim", accelerator="gpu")
    assert context.digest(BASE) != context.digest(gpu)
    assert context.tag("trainer", gpu) == f"orchestrator-trainer:{context.digest(gpu)}"


def test_other_framework_has_another_digest() -> None:
    config = Config.model_validate({"framework": "pytorch", "local": {"base_image": "debian:12-slim"}})
    assert context.variant(config, "gpu") == Variant("debian:12-slim", "pytorch", "gpu")
    assert context.digest(BASE) != context.digest(context.variant(config))


def test_user_image_has_another_digest() -> None:
    own = context.variant(Config.model_validate({"image": "my/trainer:2", "local": {"base_image": "debian:12-slim"}}))
    assert own.dockerfile is None
    assert len({context.digest(variant) for variant in (BASE, own, replace(own, user_image="my/trainer:3"))}) == 3


def test_dockerfile_digest_covers_every_file_of_its_directory(tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\n")
    own = context.variant(Config(image=str(dockerfile)))
    assert own.dockerfile == dockerfile
    before = context.digest(own)
    (tmp_path / "requirements.txt").write_text("einops")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    assert context.digest(own) != before
    with context.context(dockerfile) as file, tarfile.open(fileobj=file) as archive:
        assert archive.getnames() == ["Dockerfile", "requirements.txt"]


def user_image(directory: Path, **choices: Any) -> Variant:
    """Write a Dockerfile; return its variant."""
    (directory / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    return Variant("debian:12-slim", user_image=str(directory / "Dockerfile"), **choices)


def sent(variant: Variant) -> dict[str, tarfile.TarInfo]:
    with context.context(variant.dockerfile) as file, tarfile.open(fileobj=file) as archive:
        return {member.name: member for member in archive}


def test_tag_of_user_image_differs_with_its_base(tmp_path: Path) -> None:
    own = user_image(tmp_path)
    gpu, pytorch = replace(own, accelerator="gpu"), replace(own, framework="pytorch")
    variants = (own, gpu, pytorch, replace(own, base_image="debian:12"))
    assert len({context.user_image_tag(variant) for variant in variants}) == 4
    assert context.user_image_tag(own) == context.user_image_tag(replace(own))


def test_tag_of_user_image_differs_with_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = user_image(tmp_path)
    before = context.user_image_tag(own)
    monkeypatch.setattr(context, "inputs", lambda: iter(()))
    assert context.user_image_tag(own) != before


def test_dockerignore_leaves_files_out_of_build_and_digest(tmp_path: Path) -> None:
    own = user_image(tmp_path)
    (tmp_path / ".dockerignore").write_text("# large\ndata\n\n**/*.env\nDockerfile\n.dockerignore\n!keep.env\n")
    (tmp_path / "keep.env").touch()
    before = context.digest(own)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "large").touch()
    (tmp_path / "secret.env").touch()
    assert context.digest(own) == before
    assert set(sent(own)) == {"Dockerfile", ".dockerignore", "keep.env"}


def test_directories_and_links_are_sent_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "context" / "empty").mkdir(parents=True)
    (tmp_path / "outside").write_text("1")
    own = user_image(tmp_path / "context")
    (tmp_path / "context" / "link").symlink_to("../outside")
    (tmp_path / "context" / "folder").symlink_to("empty")
    os.mkfifo(tmp_path / "context" / "pipe")
    members = sent(own)
    assert set(members) == {"Dockerfile", "empty", "folder", "link"}
    assert members["empty"].isdir()
    assert (members["link"].linkname, members["folder"].linkname) == ("../outside", "empty")
    before = context.digest(own)
    (tmp_path / "outside").write_text("2")
    assert context.digest(own) == before
    (tmp_path / "context" / "link").unlink()
    (tmp_path / "context" / "link").symlink_to("empty")
    assert context.digest(own) != before


def test_linked_dockerfile_is_sent_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    own = replace(user_image(tmp_path), user_image=str(tmp_path / "context" / "Dockerfile"))
    (tmp_path / "context" / "Dockerfile").symlink_to(tmp_path / "Dockerfile")
    assert sent(own)["Dockerfile"].isfile()
    before = context.digest(own)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    assert context.digest(own) != before


def test_large_files_are_hashed_in_pieces(tmp_path: Path) -> None:
    own = user_image(tmp_path)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        context.digest(own)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_unreadable_file_of_the_build_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = user_image(tmp_path)
    deep = tmp_path / ("deep" * 40) / "secret"

    def denied(path: Path) -> Iterator[bytes]:
        raise PermissionError(errno.EACCES, "Permission denied", str(deep))

    monkeypatch.setattr(context, "_kind_and_content", denied)
    monkeypatch.setattr(context, "digest", lambda variant: "")
    with pytest.raises(PreflightError, match=f"^image: '{deep}': Permission denied$") as caught:
        context.user_image_tag(own)
    assert str(tmp_path / ".dockerignore") in caught.value.hint


def test_user_image_starts_with_the_trusted_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "company.pem").write_text("a certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "company.pem"))
    with tarfile.open(fileobj=context.base_of_user_image()) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert texts.pop("ca-bundle.crt") == "a certificate"
    lines = texts.pop("Dockerfile").splitlines()
    (copy,) = (line for line in lines if line.startswith("COPY ca-bundle.crt "))
    assert f"ONBUILD ARG PIP_CERT={copy.split()[-1]}" in lines
    assert texts == {}


def test_missing_dockerfile_is_named(tmp_path: Path) -> None:
    missing_file = Variant("debian:12-slim", user_image=str(tmp_path / "Dockerfile"))
    with pytest.raises(PreflightError, match=f"image: {tmp_path}/Dockerfile: no such file"):
        context.digest(missing_file)


@pytest.mark.parametrize(
    "image", ["./gone", "../Dockerfile", "/gone/lower", "~/gone", "docker/Dockerfile", "lab/Dockerfile.gpu"]
)
def test_path_without_a_dockerfile_is_refused(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PreflightError, match=f"image: {image}: no such file"):
        context.require_dockerfile(image)


@pytest.mark.parametrize(
    "image", [None, "debian", "lab/trainer:2.1-Beta", "Lab.example:5000/a/b@sha256:" + "0" * 64, "present/Dockerfile"]
)
def test_name_of_an_image_and_a_dockerfile_are_accepted(
    image: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "present").mkdir()
    (tmp_path / "present/Dockerfile").touch()
    context.require_dockerfile(image)


def test_dockerfile_path_is_independent_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Dockerfile").touch()
    assert Config(image="Dockerfile").image == str(tmp_path / "Dockerfile")
    assert Config(image="my/trainer:2").image == "my/trainer:2"


def test_proxy_and_certificates_do_not_change_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = context.digest(BASE)
    for variable in ("HTTPS_PROXY", "https_proxy", "PIP_INDEX_URL", "SSL_CERT_FILE"):
        monkeypatch.setenv(variable, "changed")
    assert context.digest(BASE) == before


WITHOUT_CERTIFICATES = """
from orchestrator.docker import context
from orchestrator.docker.context import Variant
from orchestrator.errors import PreflightError
try:
    context.ca_bundle()
except PreflightError as error:
    print(error.message, "|", error.hint)
"""


def test_machine_without_ca_certificates_is_told_to_install_them(missing: Missing) -> None:
    """Run with empty /etc/ssl and /usr/lib/ssl, in a private mount namespace."""
    hide = "for at in /etc/ssl /usr/lib/ssl; do test ! -d $at || mount -t tmpfs none $at; done"
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-ec", f'{hide}; exec "$@"', "sh", sys.executable, "-c"]
    if shutil.which("unshare") is None or subprocess.run([*argv, "pass"], capture_output=True, check=False).returncode:
        missing("this machine does not let us hide /etc/ssl in a mount namespace")
    environment = {name: value for name, value in os.environ.items() if "CERT" not in name and "CA_BUNDLE" not in name}
    result = subprocess.run([*argv, WITHOUT_CERTIFICATES], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "no CA certificates on this machine | `sudo apt-get install ca-certificates`"


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_missing_certificates_of_the_environment_are_named(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "missing.pem"))
    problem = f"{variable}: {tmp_path}/missing.pem: no such file"
    with pytest.raises(PreflightError, match=problem) as caught, context.context():
        pass
    assert f"unset {variable}" in caught.value.hint


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_trusted_certificates_are_part_of_the_build(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "company.pem").write_text("a certificate")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "company.pem"))
    with context.context() as file, tarfile.open(fileobj=file) as archive:
        assert archive.getnames() == [*(name for name, _ in context.inputs()), "ca-bundle.crt"]
        bundle = archive.extractfile("ca-bundle.crt")
        assert bundle is not None
        assert bundle.read() == b"a certificate"


def test_proxy_is_passed_on_in_both_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*context.PASSED_ON, *context.PASSED_ON_AS_IS):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert context.host_settings() == {}
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1/simple")
    assert context.host_settings() == {
        "HTTPS_PROXY": "http://127.0.0.1:3128",
        "https_proxy": "http://127.0.0.1:3128",
        "PIP_INDEX_URL": "http://127.0.0.1/simple",
    }


def test_built_files_are_readable_for_all_whatever_the_umask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, mode in (("private.py", 0o600), ("program", 0o700)):
        (tmp_path / name).touch(mode)
    monkeypatch.setattr(context, "inputs", lambda: iter((path.name, path) for path in sorted(tmp_path.iterdir())))
    with context.context() as file, tarfile.open(fileobj=file) as archive:
        modes = {member.name: member.mode for member in archive}
    assert modes == {"private.py": 0o644, "program": 0o755, "ca-bundle.crt": 0o644}
