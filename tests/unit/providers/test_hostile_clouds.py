"""Malformed credentials of clouds: one error that names the file or variable, never a traceback or a secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.hostile import assert_refused
from tests.unit.conftest import Cli, StandIn

OPENSTACK = "provider: openstack\nopenstack: {cloud: mysite, image: debian-12, flavor: m1.small}\n"
GCP = "provider: gcp\ngcp: {zone: europe-west4-a}\n"
LOGIN = "username: u, password: hunter2, project_name: p, user_domain_name: d, project_domain_name: d"
UNREACHABLE = "auth_url: 'http://127.0.0.1:1/v3'"


@pytest.fixture(autouse=True)
def no_terraform(stand_in: StandIn) -> None:
    stand_in("terraform", """echo '{"terraform_version": "1.11.4"}'""")


@pytest.mark.parametrize(
    "text",
    [
        "x: 5",
        "clouds: 5",
        "clouds: [mysite]",
        "clouds: {mysite: 5}",
        "clouds: {mysite: null}",
        "clouds: {mysite: {auth: 5}}",
        "clouds: {mysite: {auth: [a]}}",
        "clouds: {mysite: {auth: {auth_url: {a: b}}}}",
        f"clouds: {{mysite: {{auth: {{auth_url: 5, {LOGIN}}}}}}}",
        f"clouds: {{mysite: {{auth: {{auth_url: '', {LOGIN}}}}}}}",
        f"clouds: {{mysite: {{auth: {{auth_url: 'http://[::1', {LOGIN}}}}}}}",
        f"clouds: {{mysite: {{auth: {{auth_url: 'ftp://x:99999', {LOGIN}}}}}}}",
        *[
            f"clouds: {{mysite: {{auth: {{{UNREACHABLE}, {LOGIN}, {key}: true}}}}}}"
            for key in ("cacert", "verify", "profile", "regions", "colour")
        ],
        *[
            f"clouds: {{mysite: {{auth: {{{UNREACHABLE}, {LOGIN}}}, {more}}}}}"
            for more in (
                *("auth_type: nonsense", "auth_type: 5", "regions: 5", "regions: [[a]]", "region_name: [a]"),
                *("profile: 5", "profile: nonsense", "verify: [a]", "cacert: 5", "cacert: /none", "interface: 5"),
                *("identity_api_version: x", "timeout: x", "networks: 5", "networks: [5]", "cert: 5", "key: 5"),
            )
        ],
        "clouds: " + "[" * 3000,
        "clouds: {mysite: {}}\nclouds: {}",
        "clouds: {mysite: {auth: {password: !!int hunter2}}}",
        "\t- x: [",
        "5",
        "",
    ],
)
def test_malformed_clouds_yaml_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    (tmp_path / "clouds.yaml").write_text(text)
    (tmp_path / "cluster.yaml").write_text(OPENSTACK)
    finished = cli("plan", OS_CLIENT_CONFIG_FILE=str(tmp_path / "clouds.yaml"))
    assert_refused(finished, codes=(2,))
    assert "clouds.yaml" in finished.stderr or "mysite" in finished.stderr
    assert "hunter2" not in finished.stderr


def test_binary_or_pipe_clouds_yaml_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    (tmp_path / "cluster.yaml").write_text(OPENSTACK)
    finished = cli("plan", OS_CLIENT_CONFIG_FILE=str(tmp_path / "binary"))
    assert_refused(finished, f"{tmp_path / 'binary'}: line 1: not UTF-8", codes=(2,))


@pytest.mark.parametrize(
    "environment",
    [
        {"OS_AUTH_URL": "http://[::1"},
        {"OS_AUTH_URL": "x", "OS_USERNAME": "u"},
        {"OS_AUTH_TYPE": "nonsense", "OS_AUTH_URL": "http://127.0.0.1:1"},
        {"OS_IDENTITY_API_VERSION": "x", "OS_AUTH_URL": "http://127.0.0.1:1"},
        {"OS_CACERT": "/none", "OS_AUTH_URL": "https://127.0.0.1:1", "OS_USERNAME": "u", "OS_PASSWORD": "p"},
        {"OS_CLOUD": "missing"},
    ],
)
def test_incomplete_environment_for_openstack_is_refused(cli: Cli, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "cluster.yaml").write_text(OPENSTACK.replace("cloud: mysite, ", ""))
    assert_refused(cli("plan", **environment), codes=(2,))


NO_TEXT: tuple[Any, ...] = (5, None, [], {})
KEY = {"type": "service_account", "client_email": "a@b", "token_uri": "http://127.0.0.1:1", "private_key": "hunter2"}


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "5", "null", '"x"', "", "{", "{}", '{"type": 5}', '{"type": []}', '{"type": null}', "[" * 100_000),
        *('{"type": "nonsense"}', '{"type": "authorized_user"}', '{"type": "authorized_user", "refresh_token": 5}'),
        *('{"type": "external_account"}', '{"type": "service_account"}', '{"a": 1, "a": 2}', '{"a": NaN}'),
        *(json.dumps({**KEY, key: value}) for key in KEY for value in NO_TEXT),
        json.dumps(KEY),
    ],
)
@pytest.mark.parametrize("variable", ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS"])
def test_malformed_google_credentials_are_refused(cli: Cli, tmp_path: Path, text: str, variable: str) -> None:
    (tmp_path / "key.json").write_text(text)
    (tmp_path / "cluster.yaml").write_text(GCP)
    finished = cli("plan", **{variable: str(tmp_path / "key.json")})
    assert_refused(finished, "credentials", codes=(2,))
    assert "hunter2" not in finished.stderr


@pytest.mark.parametrize("text", ['{"type": 5}', "{", '{"a": ' * 3000, '{"a": 1, "a": 2}'])
def test_malformed_google_credentials_in_variable_are_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.yaml").write_text(GCP)
    assert_refused(cli("plan", GOOGLE_CREDENTIALS=text), "credentials", codes=(2,))
