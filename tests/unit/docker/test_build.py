"""Images that are built unless the engine has them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Framework
from orchestrator.docker import context, images
from orchestrator.docker.context import Variant
from orchestrator.errors import PreflightError
from tests.unit.docker.conftest import BASE, Ensure, listing


def test_existing_image_is_not_built_again(ensure: Ensure, tmp_path: Path) -> None:
    tag = context.tag("node", Variant(BASE))
    assert ensure(listing(tag)) == tag
    assert not (tmp_path / "log").exists()


def test_missing_user_image_is_named(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match="image: this Docker Engine has no my/trainer:2, and no registry has it"):
        ensure({}, Variant(BASE, user_image="my/trainer:2"))


def test_dockerfile_is_built_on_the_trainer_with_certificates(
    ensure: Ensure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    own = Variant(BASE, user_image=str(tmp_path / "Dockerfile"))
    built: list[tuple[str, str]] = []

    def build(
        engine: object, archive: object, tag: str, target: str | None, arguments: Any, *rest: str
    ) -> Iterator[Any]:
        built.append((tag, arguments["BASE"]))
        yield {"stream": "done\n"}

    monkeypatch.setattr(images, "build", build)
    trainer, tag = context.tag("trainer", replace(own, user_image=None)), context.user_image_tag(own)
    node = ensure(listing(trainer), own)
    base = tag.replace("orchestrator-own:", "orchestrator-own-base:")
    assert built == [(base, trainer), (tag, base), (node, tag)]


@pytest.mark.parametrize(
    ("framework", "accelerator", "needed"),
    [
        ("tensorflow", "cpu", 8),
        ("tensorflow", "gpu", 24),
        ("pytorch", "cpu", 14),
        ("pytorch", "gpu", 24),
        ("both", "cpu", 18),
    ],
)
def test_too_little_space_is_found_before_the_build(
    ensure: Ensure, framework: Framework, accelerator: str, needed: int
) -> None:
    info = {"NCPU": 1, "MemTotal": 1, "DockerRootDir": "/proc"}  # a file system without free space
    with pytest.raises(PreflightError, match=rf"0\.0 GiB free, the images need {needed}") as caught:
        ensure({"/info": (200, [info])}, Variant(BASE, framework, accelerator))
    assert "docker system prune" in caught.value.hint


def test_missing_certificates_are_reported_before_a_pull(ensure: Ensure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/company.pem")
    with pytest.raises(PreflightError, match="SSL_CERT_FILE: /no/such/company"):
        ensure({})
