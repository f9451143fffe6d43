"""Image builds on a simulated engine."""

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
    """Return a function that builds the node image on an engine with these answers; mmdebstrap is hidden."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def at_engine(answers: Answers, variant: Variant = Variant(BASE)) -> str:
        return build.ensure(engine(answers), "node", variant, tmp_path / "log")

    return at_engine


def listing(tag: str) -> Answers:
    """Return the answers of an engine that has one image."""
    return {f"/images/{tag}/json": (200, [{"Id": "sha256:1", "RepoTags": [tag]}])}


def building(*messages: dict[str, Any]) -> Answers:
    """Return the answers of an engine whose registry has the base image, and whose builds print these messages."""
    pulled = {"Id": "sha256:1", "RepoTags": [BASE]}
    return {
        "/images/create": (200, [{"status": "Pulling"}]),
        f"/images/{BASE}/json": (200, [pulled]),
        "/build": (200, list(messages)),
    }
