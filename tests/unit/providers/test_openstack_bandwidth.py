"""Bandwidth limits of flavors: their unit, their source, and the behaviour without the right to read them."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.prediction.link_kinds import Limit
from orchestrator.providers.openstack.bandwidth import ANSWER_SECONDS, limit, limits
from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config
from tests.stand_ins.openstack_stand_in import OpenStack

INBOUND, OUTBOUND = "quota:vif_inbound_average", "quota:vif_outbound_average"
WORKER = ("worker",)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


@pytest.mark.parametrize(
    ("properties", "rate"),
    [
        ({}, None),
        ({"hw_rng:allowed": "True"}, None),
        ({OUTBOUND: "32768"}, 262.144e6),  # the example of Nova's guide: 262 Mbit/s
        ({INBOUND: "125000", OUTBOUND: "1250000"}, 1e9),
        ({INBOUND: "1250000", OUTBOUND: "125000"}, 1e9),
        ({OUTBOUND: "0"}, None),
        ({OUTBOUND: "much"}, None),
        ({OUTBOUND: "-1"}, None),
        ({"quota:vif_outbound_peak": "125000"}, None),
    ],
)
def test_limit_is_the_smaller_average_of_both_directions(properties: dict[str, str], rate: float | None) -> None:
    assert limit(properties) == rate


@pytest.mark.parametrize("listed", [True, False])
def test_limits_are_those_of_the_flavors_of_the_roles(cloud: OpenStack, listed: bool) -> None:
    cloud.set_extra_specs("m1.tiny", {OUTBOUND: "1250000"}, listed)
    cloud.set_extra_specs("m1.small", {INBOUND: "125000"}, listed)
    tiny = Limit(10e9, "the cloud's limit for flavor m1.tiny")
    small = Limit(1e9, "the cloud's limit for flavor m1.small")
    assert limits(config(), WORKER) == [tiny]
    assert limits(config(head_flavor="m1.small"), ("worker", "head")) == [tiny, small]


def test_extra_specs_are_requested_only_for_flavors_of_nodes(cloud: OpenStack) -> None:
    tiny, _ = (cloud.set_extra_specs(name, {}, listed=False) for name in ("m1.tiny", "m1.small"))
    assert limits(config(), WORKER) == []
    assert [request for request in cloud.requests if "os-extra_specs" in request] == [f"GET {tiny}"]


@pytest.mark.parametrize("status", [403, 404])
def test_account_without_access_to_extra_specs_has_no_limit(cloud: OpenStack, status: int) -> None:
    path = cloud.set_extra_specs("m1.tiny", {OUTBOUND: "1250000"}, listed=False)
    cloud.refusals[f"GET {path}"] = [status]
    assert limits(config(), WORKER) == []


def test_failing_compute_service_is_an_error(cloud: OpenStack) -> None:
    cloud.refusals["GET /compute/v2.1/flavors/detail"] = [500]
    with pytest.raises(CommandFailed, match="list flavors"):
        limits(config(), WORKER)


def test_silent_cloud_is_awaited_for_a_few_seconds(cloud: OpenStack, tmp_path: Path) -> None:
    clouds, started = tmp_path / "clouds.yaml", time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never reads
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        clouds.write_text(clouds.read_text().replace(cloud.url, address))
        with pytest.raises(PreflightError, match="does not answer"):
            limits(config(), WORKER)
    assert time.monotonic() - started < 3 * ANSWER_SECONDS
