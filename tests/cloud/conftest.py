"""Fixtures for tests on a real OpenStack; an administrator (``E2E_ADMIN_CLOUD``) changes its quotas and flavors."""

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import Missing
from tests.e2e.conftest import cli, site

__all__ = ["administer", "cli", "site"]


@pytest.fixture(scope="session")
def administer(missing: Missing) -> Callable[..., str]:
    """Return a function that runs the openstack client as the cloud's administrator."""
    cloud = os.environ.get("E2E_ADMIN_CLOUD")
    if not cloud:
        missing("E2E_ADMIN_CLOUD names no entry of clouds.yaml with the rights of an administrator")

    def run(*argv: str) -> str:
        words = ["openstack", "--os-cloud", cloud, *argv]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    return run
