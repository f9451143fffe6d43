"""Grafana beside local nodes: where its image comes from, what its files are, and what is said if there is none."""

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
    """The cluster's state directory and record as a deploy that got as far as to Terraform has them."""
    state_dir = state.for_cluster("demo")
    with grafana_password.provision_password(state_dir, settings):
        record = state.new_record(settings.model_dump(mode="json"))
        grafana.prepare(docker, record, state_dir)
        variables = {"local": {"grafana": grafana.variables(docker, settings)}}
    return state_dir, record.model_copy(update={"variables": variables})


def variables_of(state_dir: StateDir, record: Record) -> dict[str, Any]:
    """What Ansible is told of it."""
    variables = host_vars.for_ansible(state_dir, record, builders.cluster())
    return {key: value for key, value in variables.items() if key.startswith("monitoring_grafana_")}


def test_an_image_loaded_by_hand_is_used_by_its_id(engine: Connect) -> None:
    state_dir, record = prepared(engine(IMAGE), config())
    assert record.variables["local"]["grafana"]["image"] == "sha256:1234"
    assert variables_of(state_dir, record) == {"monitoring_grafana_beside": True}


def test_an_image_loaded_by_hand_has_no_digest_of_a_registry(engine: Connect) -> None:
    pinned = f"{BY_HAND}@sha256:{'0' * 64}"
    _, record = prepared(engine(IMAGE), config(grafana_image=pinned))
    assert record.variables["local"]["grafana"]["image"] == "sha256:1234"


def test_without_an_image_one_line_names_it_the_reason_and_the_remedy(engine: Connect) -> None:
    state_dir, record = prepared(engine(), config())
    assert record.variables["local"]["grafana"] == grafana.NONE
    (lack,) = variables_of(state_dir, record).values()
    assert f"no image {BY_HAND} and cannot pull it (manifest unknown)" in lack
    assert "docker load" in lack
    assert "monitoring.grafana_image" in lack
    assert "\n" not in lack


def test_a_pull_that_failed_is_repeated_only_if_asked_for(engine: Connect) -> None:
    prepared(engine(), config())
    busy = {"/images/create": (500, [{"message": "busy"}])}
    assert "manifest unknown" in str(variables_of(*prepared(engine(busy), config())))
    assert "busy" in str(variables_of(*prepared(engine(busy), config(grafana="on"))))
    other = config(grafana_image="another:2")
    assert "no image another:2" in str(variables_of(*prepared(engine(busy), other)))


def test_words_of_a_registry_are_no_template_and_no_json(engine: Connect) -> None:
    hostile = {"/images/create": (500, [{"message": 'x {{ lookup("pipe", "id") }}\n"\\ {% y %}' + "z" * 1000}])}
    (lack,) = variables_of(*prepared(engine(hostile), config())).values()
    assert not set('{}%"\\\n') & set(lack)
    assert len(lack) < 500


@pytest.mark.parametrize("monitoring", [{"enabled": False}, {"grafana": "off"}])
def test_without_monitoring_or_grafana_nothing_is_asked(engine: Connect, monitoring: dict[str, Any]) -> None:
    state_dir, record = prepared(engine(IMAGE), config(**monitoring))
    assert record.variables["local"]["grafana"] == grafana.NONE
    assert variables_of(state_dir, record) == {}


def members(path: Path) -> dict[str, tuple[int, int]]:
    with tarfile.open(path) as archive:
        return {member.name: (member.uid, member.mode) for member in archive}


def test_its_files_are_for_their_owner_alone(engine: Connect) -> None:
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


def test_another_password_makes_another_container(engine: Connect) -> None:
    docker = engine(IMAGE)
    state_dir, record = prepared(docker, config())
    assert prepared(docker, config())[1].variables == record.variables
    os.utime(state_dir.monitoring, ns=(1, 1))
    assert prepared(docker, config())[1].variables != record.variables
