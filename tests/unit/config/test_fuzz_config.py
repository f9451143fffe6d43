"""Any value of any key in users' files gives a Config, or a short error with the file's name."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import config, recipes
from orchestrator.config import yaml_documents
from orchestrator.errors import ConfigError, PreflightError
from orchestrator.providers.gcp.api import credentials as google
from orchestrator.providers.openstack.api import credentials
from orchestrator.recipes import validate_recipe
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable
from tests.stand_ins import fuzz

KEYS = [path for path, _, _ in config.every_key()]
CLOUD = {
    "clouds": {
        "mysite": {
            "auth": {"auth_url": "http://127.0.0.1:1/v3", "username": "u", "password": "p", "project_name": "x"},
            "region_name": "r",
            "regions": ["r"],
            "profile": "x",
            "verify": True,
            "cacert": "/x",
            "interface": "public",
        }
    }
}
KEY = {
    "type": "service_account",
    "client_email": "a@b",
    "token_uri": "http://127.0.0.1:1",
    "project_id": "p",
    "private_key": "x",
    "private_key_id": "1",
    "refresh_token": "r",
    "client_id": "c",
    "client_secret": "s",
}


def nested(key: str, value: str) -> str:
    """Return a document with one key and this literal value."""
    *sections, last = key.split(".")
    return (
        "".join(f"{'  ' * n}{name}:\n" for n, name in enumerate(sections)) + f"{'  ' * len(sections)}{last}: {value}\n"
    )


@given(content=st.binary(max_size=300) | fuzz.WRITTEN.map(str.encode))
def test_any_bytes_are_json_or_unreadable(content: bytes) -> None:
    with fuzz.refused(Unreadable, "some.json: "):
        bounded_files.load_json(content, "some.json")


@given(content=st.binary(max_size=300) | st.text(max_size=300) | fuzz.WRITTEN)
def test_any_text_is_yaml_or_unreadable(content: str | bytes) -> None:
    with fuzz.refused(Unreadable, "some.yaml: "):
        yaml_documents.load(content, "some.yaml")


@given(key=st.sampled_from(KEYS), value=fuzz.WRITTEN)
def test_any_value_of_any_key_is_a_config_or_refused(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(nested(key, value), encoding="utf-8", errors="surrogatepass")
    with fuzz.refused(ConfigError, f"{path}: "):
        config.load(path, {})


@given(key=st.sampled_from([f"common.{key}" for key in validate_recipe.Settings.model_fields]), value=fuzz.WRITTEN)
def test_any_value_of_any_key_is_a_recipe_or_refused(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(nested(key, value), encoding="utf-8", errors="surrogatepass")
    with fuzz.refused(ConfigError, f"{path}: "):
        validate_recipe.user_recipe(path, list(recipes.datasets()))


@given(state_dir=st.sampled_from(fuzz.paths(CLOUD)), value=fuzz.VALUES)
def test_any_value_in_clouds_yaml_connects_or_is_refused(
    tmp_path: Path, state_dir: tuple[Any, ...], value: Any
) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text(
        yaml_documents.dump(fuzz.replaced(CLOUD, state_dir, value)), encoding="utf-8", errors="surrogatepass"
    )
    with pytest.MonkeyPatch.context() as patch, fuzz.refused(PreflightError):
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
        credentials.connection("mysite")


@given(content=fuzz.damaged_json(json.dumps(KEY).encode()))
def test_any_google_key_file_is_credentials_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key.json").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch, fuzz.refused(PreflightError):
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        google.find()
