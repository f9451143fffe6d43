"""Fixtures of the provider openstack: a cloud with credentials, a cluster's configuration, and its record."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Config
from orchestrator.errors import PreflightError
from orchestrator.providers import openstack as provider
from orchestrator.state import Record
from tests.stand_ins.openstack_stand_in import PASSWORD, OpenStack, listening


@contextmanager
def selected_cloud(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[OpenStack]:
    """Yield a cloud that clouds.yaml in ``directory`` names "here", in an environment that names no other cloud."""
    with listening() as openstack:
        for name in [name for name in os.environ if name.startswith("OS_")]:
            monkeypatch.delenv(name)
        clouds = {"clouds": {"here": {"auth": credentials(openstack.url), "region_name": "RegionOne"}}}
        (directory / "clouds.yaml").write_text(json.dumps(clouds))
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(directory / "clouds.yaml"))
        yield openstack


def credentials(url: str) -> dict[str, str]:
    """Return valid credentials."""
    names = {"user_domain_name": "Default", "project_domain_name": "Default", "project_name": "demo"}
    return {**names, "auth_url": f"{url}/identity/v3", "username": "demo", "password": PASSWORD}


def config(name: str = "sdk", nodes: int = 2, **keys: Any) -> Config:
    """Return a configuration for the cloud "here"; ``keys`` are of the section openstack."""
    section = {"cloud": "here", "image": "debian-12", "flavor": "m1.tiny", **keys}
    return Config.model_validate({"name": name, "provider": "openstack", "nodes": nodes, "openstack": section})


def record(settings: Config, deployment: str = "1a2b3c4d", **variables: Any) -> Record:
    """Return the record of a deployment of ``settings``; ``variables`` are Terraform's, of the cloud."""
    applied = {"openstack": variables}
    return Record(id=deployment, config=settings.model_dump(mode="json"), variables=applied, applied=applied)


def findings(settings: Config, before: Record | None = None) -> list[tuple[str, str]]:
    """Return message and remedy of every finding of the pre-flight."""
    try:
        provider.preflight(settings, before)
    except PreflightError as error:
        return [(finding.message, finding.hint) for finding in error.findings]
    return []
