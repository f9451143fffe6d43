"""Base images that are in no registry."""

import pytest

from orchestrator.docker import images
from orchestrator.docker.context import Variant
from orchestrator.errors import PreflightError
from tests.unit.conftest import StandIn
from tests.unit.docker.conftest import BASE, Ensure


def test_base_image_in_no_registry_needs_mmdebstrap(ensure: Ensure) -> None:
    with pytest.raises(
        PreflightError, match=f"{BASE} cannot be pulled: manifest unknown; and mmdebstrap.* is not"
    ) as caught:
        ensure({})
    assert "apt-get install mmdebstrap" in caught.value.hint


def test_only_debian_12_can_be_built_without_a_registry(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match="fedora:40 cannot be pulled: manifest unknown; and only debian:12"):
        ensure({}, Variant("fedora:40"))


def test_reason_of_a_failed_pull_is_shown_before_mmdebstrap_runs(
    ensure: Ensure, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("mmdebstrap", "exit 0")
    monkeypatch.setattr(images, "load_root_filesystem", lambda *_: None)
    limit = "toomanyrequests: You have reached your pull rate limit"
    ensure({"/images/create": (429, [{"message": limit}]), "/build": (200, [])})
    assert f"{limit}\n" in capsys.readouterr().err
