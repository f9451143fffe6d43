"""Image builds on an engine that a stand-in simulates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.docker import build
from orchestrator.docker.context import Variant
from tests.stand_ins.docker_stand_in import Answers
from tests.unit.conftest import Connect

BASE = "debian:12-slim"
Ensure = Callable[..., str]


@pytest.fixture
def ensure(engine: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ensure:
    """Ensures the node image at an engine with these answers, by default without any image; hides mmdebstrap."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def at_engine(answers: Answers, variant: Variant = Variant(BASE)) -> str:
        return build.ensure(engine(answers), "node", variant, tmp_path / "log")

    return at_engine


def listing(tag: str) -> Answers:
    """An engine that has one image."""
    return {f"/images/{tag}/json": (200, [{"Id": "sha256:1", "RepoTags": [tag]}])}


def building(*messages: dict[str, Any]) -> Answers:
    """An engine whose registry has the base image, and whose builds say this."""
    pulled = {"Id": "sha256:1", "RepoTags": [BASE]}
    return {
        "/images/create": (200, [{"status": "Pulling"}]),
        f"/images/{BASE}/json": (200, [pulled]),
        "/build": (200, list(messages)),
    }
