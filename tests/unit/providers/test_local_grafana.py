"""Grafana on the machine of local nodes: the source of its image, its files, and the message without an image."""

import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.docker.engine import Engine
from orchestrator.lifecycle import host_vars
from orchestrator.monitoring import grafana_password
from orchestrator.providers.local import grafana
from orchestrator.state import Record, StateDir
from tests import builders
from tests.unit.conftest import Connect

BY_HAND = "grafana-by-hand:1"
IMAGE = {f"/images/{BY_HAND}/json": (200, [{"Id": "sha256:1234"}])}


def config(**monitoring: Any) -> Config:
    return Config.model_validate({"name": "demo", "monitoring": {"grafana_image": BY_HAND, **monitoring}})


def prepared(docker: Engine, settings: Config) -> tuple[StateDir, Record]:
    """Return state directory and record of a deploy just before Terraform."""
    state_dir = state.for_cluster("demo")
    with grafana_password.provision_password(state_dir, settings):
        record = state.new_record(settings.model_dump(mode="json"))
        grafana.prepare(docker, record, state_dir)
        variables = {"local": {"grafana": grafana.variables(docker, settings)}}
    return state_dir, record.model_copy(update={"variables": variables})


def variables_of(state_dir: StateDir, record: Record) -> dict[str, Any]:
    """Return Ansible's variables."""
    variables = host_vars.for_ansible(state_dir, record, builders.cluster())
    return {key: value for key, value in variables.items() if key.startswith("monitoring_grafana_")}


def test_image_loaded_by_hand_is_used_by_its_id(engine: Connect) -> None:
    state_dir, record = prepared(engine(IMAGE), config())
    assert record.variables["local"]["grafana"]["image"] == "sha256:1234"
    assert variables_of(state_dir, record) == {"monitoring_grafana_by_terraform": True}


def test_image_loaded_by_hand_has_no_digest_of_a_registry(engine: Connect) -> None:
    pinned = f"{BY_HAND}@sha256:{'0' * 64}"
    _, record = prepared(engine(IMAGE), config(grafana_image=pinned))
    assert record.variables["local"]["grafana"]["image"] == "sha256:1234"


def test_missing_image_is_reported_in_one_line_with_remedy(engine: Connect) -> None:
    state_dir, record = prepared(engine(), config())
    assert record.variables["local"]["grafana"] == grafana.NONE
    (message,) = variables_of(state_dir, record).values()
    assert f"no image {BY_HAND} and cannot pull it (manifest unknown)" in message
    assert "docker load" in message
    assert "monitoring.grafana_image" in message
    assert "\n" not in message


def test_failed_pull_is_repeated_only_on_request(engine: Connect) -> None:
    prepared(engine(), config())
    busy = {"/images/create": (500, [{"message": "busy"}])}
    assert "manifest unknown" in str(variables_of(*prepared(engine(busy), config())))
    assert "busy" in str(variables_of(*prepared(engine(busy), config(grafana="on"))))


@pytest.mark.parametrize("other", ["another:2", "grafana-by-hand", "grafana-by-hand:12", "hand:1"])
def test_another_image_is_pulled_after_a_failed_pull(engine: Connect, other: str) -> None:
    prepared(engine(), config())
    busy = {"/images/create": (500, [{"message": "busy"}])}
    message = str(variables_of(*prepared(engine(busy), config(grafana_image=other))))
    assert f"no image {other} and cannot pull it (busy)" in message


def test_message_of_a_registry_is_no_template_and_no_json(engine: Connect) -> None:
    hostile = {"/images/create": (500, [{"message": 'x {{ lookup("pipe", "id") }}\n"\\ {% y %}' + "z" * 1000}])}
    (message,) = variables_of(*prepared(engine(hostile), config())).values()
    assert not set('{}%"\\\n') & set(message)
    assert len(message) < 500


@pytest.mark.parametrize("monitoring", [{"enabled": False}, {"grafana": "off"}])
def test_disabled_monitoring_or_grafana_needs_no_engine(engine: Connect, monitoring: dict[str, Any]) -> None:
    state_dir, record = prepared(engine(IMAGE), config(**monitoring))
    assert record.variables["local"]["grafana"] == grafana.NONE
    assert variables_of(state_dir, record) == {}


def members(path: Path) -> dict[str, tuple[int, int]]:
    with tarfile.open(path) as archive:
        return {member.name: (member.uid, member.mode) for member in archive}


def test_files_have_private_mode(engine: Connect) -> None:
    state_dir, record = prepared(engine(IMAGE), config())
    path = Path(record.variables["local"]["grafana"]["files"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = members(path)
    assert files["password"] == (grafana.ACCOUNT, 0o400)
    assert files["data"] == (grafana.ACCOUNT, 0o755)
    assert files["grafana.ini"] == files["provisioning/datasources/prometheus.yml"] == (0, 0o644)
    assert sum(name.startswith("dashboards/") for name in files) == 5
    with tarfile.open(path) as archive:
        content = archive.extractfile("password")
        assert content is not None
        secret = content.read().decode()
    assert secret == grafana_password.read(state_dir)
    assert secret not in record.model_dump_json()


def test_other_password_makes_another_container(engine: Connect) -> None:
    docker = engine(IMAGE)
    state_dir, record = prepared(docker, config())
    assert prepared(docker, config())[1].variables == record.variables
    os.utime(state_dir.monitoring, ns=(1, 1))
    assert prepared(docker, config())[1].variables != record.variables
