"""Base images that are in no registry."""

import pytest

from orchestrator.docker.context import Variant
from orchestrator.errors import PreflightError
from tests.unit.docker.conftest import BASE, Ensure


def test_base_image_in_no_registry_needs_mmdebstrap(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match=f"no registry answers for {BASE}, and mmdebstrap.* is not") as caught:
        ensure({})
    assert "apt-get install mmdebstrap" in caught.value.hint


def test_only_debian_12_can_be_built_without_a_registry(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match="no registry has fedora:40"):
        ensure({}, Variant("fedora:40"))
