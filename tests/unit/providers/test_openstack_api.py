"""Logging in to an OpenStack: every failure is one sentence with its remedy."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.providers.openstack.api import catalogue, credentials
from orchestrator.providers.openstack.api.connection import Cloud
from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


def set_credentials(monkeypatch: pytest.MonkeyPatch, url: str, **changes: str | None) -> None:
    """Set credentials in the environment instead of clouds.yaml."""
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    for key, value in {**openstack_cases.credentials(url), **changes}.items():
        if value is not None:
            monkeypatch.setenv(f"OS_{key.upper()}", value)


def refusal(entry: str | None = None) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        Cloud(entry)
    return caught.value


def test_entry_of_clouds_yaml_logs_in(cloud: OpenStack) -> None:
    connection = Cloud("here")
    connected = (connection.entry, connection.host, connection.endpoint("network"))
    assert connected == ("here", "127.0.0.1", f"{cloud.url}/network")


def test_only_entry_need_not_be_named() -> None:
    assert Cloud(None).entry == "here"


def test_entry_named_by_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLOUD", "here")
    assert Cloud(None).entry == "here"


def test_environment_alone_logs_in(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, cloud.url)
    assert Cloud(None).entry is None


def test_missing_credentials_name_the_searched_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    error = refusal()
    assert error.message.startswith("OpenStack's credentials are incomplete: ")
    assert "openstack.cloud" in error.hint
    assert "~/.config/openstack/clouds.yaml" in error.hint


def test_unknown_cloud_is_named_with_the_known_ones(tmp_path: Path) -> None:
    error = refusal("hree")
    assert error.message == f"openstack.cloud: 'hree' is not in {tmp_path}/clouds.yaml, did you mean here?"
    assert error.hint == "it has here"


def test_unknown_cloud_of_the_environment_is_named_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLOUD", "elsewhere")
    assert refusal().message.startswith("OS_CLOUD: 'elsewhere' is not in ")


@pytest.mark.parametrize("content", [None, "clouds: [", "- a list", "clouds:\n- a list"])
def test_missing_or_invalid_clouds_yaml_is_no_bug(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "clouds.yaml").unlink()
    if content:
        (tmp_path / "clouds.yaml").write_text(content)
    assert "clouds.yaml" in refusal("here").message


def test_refused_credentials_are_reported(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, cloud.url, username="someone")
    error = refusal()
    assert error.message.startswith("the cloud of OS_AUTH_URL refuses the credentials: ")
    assert "password" in error.hint


def test_missing_password_is_reported(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, cloud.url, password=None)
    assert "the credentials are incomplete: password" in refusal().message


def test_unreachable_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, "http://127.0.0.1:9")
    error = refusal()
    assert error.message == "OpenStack does not answer: http://127.0.0.1:9/identity/v3"
    assert "VPN" in error.hint


def test_invalid_address_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, "127.0.0.1:9")
    assert refusal().hint == "check auth_url"


def test_credentials_without_a_project_are_refused(cloud: OpenStack) -> None:
    del cloud.documents["/identity/v3/auth/tokens"]["token"]["project"]
    assert refusal("here").message == "cloud 'here': the credentials are for no project"


def test_region_without_the_service_is_named(tmp_path: Path) -> None:
    clouds = json.loads((tmp_path / "clouds.yaml").read_text())
    clouds["clouds"]["here"]["region_name"] = "Mars"
    (tmp_path / "clouds.yaml").write_text(json.dumps(clouds))
    with pytest.raises(PreflightError, match="cloud 'here' has no compute service in region Mars"):
        Cloud("here").require("compute")


def test_unreachable_service_is_named(cloud: OpenStack) -> None:
    catalog = cloud.documents["/identity/v3/auth/tokens"]["token"]["catalog"]
    compute = next(service for service in catalog if service["type"] == "compute")
    for endpoint in compute["endpoints"]:
        endpoint["url"] = "http://127.0.0.1:9/compute"
    with pytest.raises(PreflightError, match=r"OpenStack does not answer: http://127\.0\.0\.1:9/compute"):
        Cloud("here").require("compute")


def test_error_of_a_service_has_the_step_and_a_command(cloud: OpenStack) -> None:
    cloud.refusals["GET /compute/v2.1/flavors/detail"] = [500]
    with pytest.raises(CommandFailed) as caught:
        catalogue.flavors(Cloud("here"))
    assert caught.value.message.startswith("list flavors: `openstack flavor list` failed (HTTP 500):")


def test_file_for_terraform_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials.clouds_file() == tmp_path / "clouds.yaml"
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    assert credentials.clouds_file() is None


def test_variables_that_only_terraform_would_obey_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An openrc file that was sourced before must not lead Terraform elsewhere than the entry of clouds.yaml."""
    for name in ("OS_REGION_NAME", "OS_PROJECT_ID", "OS_USERNAME"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("OS_CLOUD", "here")
    assert Cloud("here").login["region"] == "RegionOne"
    assert sorted(name for name in os.environ if name.startswith("OS_")) == ["OS_CLIENT_CONFIG_FILE", "OS_CLOUD"]


def test_environment_without_an_entry_keeps_its_variables(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch, cloud.url)
    Cloud(None)
    assert os.environ["OS_USERNAME"] == "demo"


def change_entry(directory: Path, **changes: Any) -> None:
    clouds = json.loads((directory / "clouds.yaml").read_text())
    clouds["clouds"]["here"] |= changes
    (directory / "clouds.yaml").write_text(json.dumps(clouds))


def test_terraform_gets_region_interface_and_certificate_of_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    change_entry(tmp_path, region_name=None, regions=["RegionOne", "RegionTwo"], interface="public", cacert="ca.pem")
    login = Cloud("here").login
    assert (login["region"], login["interface"]) == ("RegionOne", "public")
    assert login["cacert"] == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"auth_type": "v3oidcaccesstoken"}, "auth_type v3oidcaccesstoken is unknown", "application credential create"),
        ({"profile": "here-profile"}, "here: profile: here-profile is unknown", "replace it with auth_url: "),
    ],
)
def test_login_that_terraform_does_not_have_is_refused(
    tmp_path: Path, changes: dict[str, str], problem: str, remedy: str
) -> None:
    connection = Cloud("here").connection
    connection.config.config.update(changes)
    change_entry(tmp_path, **changes)
    with pytest.raises(PreflightError, match=problem) as caught:
        credentials.require_terraform_login(connection, "here")
    assert remedy in caught.value.hint


def test_secrets_that_terraform_does_not_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secure_file = tmp_path / "secure.yaml"
    monkeypatch.setenv("OS_CLIENT_SECURE_FILE", str(secure_file))
    secure_file.write_text("clouds: {elsewhere: {auth: {}}}\n")
    credentials.require_terraform_login(Cloud("here").connection, "here")
    secure_file.write_text("clouds: {here: {auth: {}}}\n")
    with pytest.raises(PreflightError, match=f"^{secure_file}: it has secrets of here") as caught:
        credentials.require_terraform_login(Cloud("here").connection, "here")
    assert "move it to ~/.config/openstack/secure.yaml" in caught.value.hint
    monkeypatch.setattr(credentials, "TERRAFORM_SECURE_FILES", (str(secure_file),))
    credentials.require_terraform_login(Cloud("here").connection, "here")


@pytest.mark.parametrize("kind", [None, "password", "v3applicationcredential"])
def test_login_that_terraform_has_passes(kind: str | None) -> None:
    connection = Cloud("here").connection
    connection.config.config["auth_type"] = kind
    credentials.require_terraform_login(connection, "here")
