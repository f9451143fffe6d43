"""Paths in users' files that start with ~."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import config
from orchestrator.config import Config, Receiver
from orchestrator.errors import ConfigError
from orchestrator.monitoring import alert_receivers
from orchestrator.providers import hosts
from orchestrator.providers.hosts import login
from orchestrator.recipes import validate_recipe
from orchestrator.runs import datasets
from tests.unit.conftest import StandIn

UNKNOWN_HOME = Path("~nosuchuser/x")
MAIL = Receiver(email="a@b.c", smarthost="mail:25", username="a", password_file=UNKNOWN_HOME)
HOSTS = Config.model_validate({"provider": "hosts", "hosts": {"addresses": ["node1"], "identity": UNKNOWN_HOME}})


def test_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config.expanded("train.data", Path("~/data")) == tmp_path / "data"


@pytest.mark.parametrize(
    ("key", "use"),
    [
        ("train.recipe", lambda: validate_recipe.user_recipe(UNKNOWN_HOME, [])),
        ("train.data", lambda: datasets.require("mnist", UNKNOWN_HOME, print)),
        ("monitoring.receivers.0.password_file", lambda: alert_receivers.configuration([MAIL])),
        ("hosts.identity", lambda: hosts.preflight(HOSTS, None)),
        ("hosts.identity", lambda: login.of(HOSTS, HOSTS.hosts.addresses[0])),
    ],
)
def test_tilde_of_an_unknown_user_is_refused_with_its_key(
    stand_in: StandIn, key: str, use: Callable[[], object]
) -> None:
    stand_in("ssh", "exit 1")
    with pytest.raises(ConfigError) as caught:
        use()
    assert caught.value.problems == [f"{key}: ~nosuchuser/x: no user 'nosuchuser'"]
    assert caught.value.hint == "write the whole path"


def test_stored_paths_name_the_same_files_in_another_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    values = {
        "train": {"data": "data", "recipe": "../mine.yaml"},
        "gpu": {"vgpu_installer": "guest.run", "vgpu_token": "~/client.tok"},
        "hosts": {"identity": "/keys/lab", "addresses": ["data"]},
        "monitoring": {"receivers": [{**MAIL.model_dump(), "password_file": "mail.password"}]},
    }
    written = Config.model_validate(values)
    stored = config.stored(config.storable(written))
    assert (stored.train.data, stored.train.recipe) == (tmp_path / "data", tmp_path / "../mine.yaml")
    assert (stored.gpu.vgpu_installer, stored.gpu.vgpu_token) == (tmp_path / "guest.run", Path("~/client.tok"))
    assert (stored.hosts.identity, stored.hosts.addresses[0].address) == (Path("/keys/lab"), "data")
    assert stored.monitoring.receivers[0].password_file == tmp_path / "mail.password"
    assert config.storable(stored) == config.storable(written)
    assert config.storable(Config()) == Config().model_dump(mode="json")
