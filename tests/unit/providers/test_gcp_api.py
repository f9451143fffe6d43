"""The client of Google's API: credentials, addresses, and every kind of answer."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.transport.requests import AuthorizedSession

from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.providers.gcp.api import Google, client, path_of
from tests.stand_ins import google_stand_in
from tests.stand_ins.google_stand_in_data import HERE, LINK, PROJECT, ZONE, refusal
from tests.stand_ins.google_stand_in_memory import StandIn


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


def test_missing_resource_is_none(cloud: StandIn) -> None:
    google = Google()
    assert google.find(f"{HERE}/zones/nowhere") is None
    assert (google.find(f"{HERE}/zones/{ZONE}") or {})["name"] == ZONE


def test_link_and_path_are_equal() -> None:
    assert path_of(f"{LINK}{HERE}/global/networks/n") == path_of(f"{HERE}/global/networks/n")


@pytest.mark.parametrize(
    ("answer", "kind", "message", "hint"),
    [
        (refusal(401, "Expired", "authError"), PreflightError, "does not take the credentials", "gcloud auth"),
        (refusal(403, "Required 'x.get'", "forbidden"), PreflightError, "refuses permission: Required", "the owner"),
        (refusal(403, "not used before", "accessNotConfigured"), PreflightError, "API is off", "compute.googleapis"),
        (refusal(403, "Rate Limit Exceeded", "rateLimitExceeded"), CommandFailed, "Rate Limit Exceeded", ""),
        (refusal(400, "Invalid value", "invalid"), CommandFailed, "Invalid value", ""),
        ((400, {"error": "invalid_request"}), CommandFailed, "invalid_request", ""),
    ],
)
def test_refusal_is_an_error_with_googles_words_and_a_remedy(
    cloud: StandIn, answer: Any, kind: type[OrchestratorError], message: str, hint: str
) -> None:
    cloud.refused["zones"] = answer
    with pytest.raises(kind, match=message) as caught:
        Google().find(f"{HERE}/zones/{ZONE}")
    assert hint in caught.value.hint.replace("project's", "the")


@pytest.mark.parametrize(
    ("details", "project"),
    [([], PROJECT), ([{"reason": "SERVICE_DISABLED", "metadata": {"consumer": "projects/1234"}}], "1234")],
)
def test_api_that_is_off_is_enabled_in_the_project_that_lacks_it(
    cloud: StandIn, details: list[dict[str, Any]], project: str
) -> None:
    status, body = refusal(403, "not used before", "accessNotConfigured")
    body["error"]["details"] = details
    cloud.refused["zones"] = status, body
    with pytest.raises(PreflightError, match="API is off") as caught:
        Google().find(f"{HERE}/zones/{ZONE}")
    assert caught.value.hint == f"`gcloud services enable compute.googleapis.com --project {project}`"


def test_busy_service_is_retried(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BACKOFF", 0.0)
    cloud.busy = 2
    assert Google().find(HERE)
    assert cloud.requests == [f"GET /compute/{HERE}"] * 3


def test_every_page_of_a_list_is_read(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stand_ins.google_stand_in_memory.PAGE", 1)
    for name in "abc":
        cloud.put(f"{HERE}/global/networks/{name}")
    assert [item["name"] for item in Google().items(f"{HERE}/global/networks")] == ["a", "b", "c"]


def test_list_without_an_answer_of_a_zone_is_an_error(cloud: StandIn) -> None:
    cloud.unreachable = "us-west1-b"
    with pytest.raises(CommandFailed, match="us-west1-b"):
        Google().everywhere(PROJECT, "instances")


def test_operation_is_awaited_and_its_error_is_raised(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    google = Google()
    operation = google.call("POST", f"{HERE}/global/networks", body={"name": "n"})
    assert operation
    assert operation["status"] == "RUNNING"
    google.finish(operation, "make a network")
    cloud.failing["networks/n"] = "QUOTA_EXCEEDED"
    removal = google.call("DELETE", f"{HERE}/global/networks/n")
    with pytest.raises(CommandFailed, match=r"remove a network: .*QUOTA_EXCEEDED"):
        google.finish(removal or {}, "remove a network")
    monkeypatch.setattr(client, "OPERATION_SECONDS", -1.0)
    with pytest.raises(CommandFailed, match="no end within"):
        google.finish(operation, "make a network")


def test_unreachable_endpoint_is_named_with_its_variable(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "http://127.0.0.1:9/compute")
    monkeypatch.setattr(client, "BACKOFF", 0.0)
    with pytest.raises(PreflightError, match="does not answer") as caught:
        Google().find(HERE)
    assert "GOOGLE_COMPUTE_CUSTOM_ENDPOINT" in caught.value.hint


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all credentials, and Google's metadata server."""
    for name in (
        "GOOGLE_OAUTH_ACCESS_TOKEN",
        "GOOGLE_CREDENTIALS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUDSDK_CONFIG",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", "/nowhere")  # no gcloud that could name a project


def test_missing_credentials_name_the_command_that_creates_them(no_credentials: None) -> None:
    with pytest.raises(PreflightError, match="no usable Google credentials") as caught:
        Google()
    assert "gcloud auth application-default login" in caught.value.hint


@pytest.mark.parametrize("inline", [True, False])
def test_google_credentials_is_a_path_or_content_as_in_terraform(
    no_credentials: None, inline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    (tmp_path / "key.json").write_text(json.dumps(credentials))
    monkeypatch.setenv("GOOGLE_CREDENTIALS", json.dumps(credentials) if inline else str(tmp_path / "key.json"))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "ours")
    google = Google()
    assert (google.project, google.session.credentials.refresh_token) == ("ours", "t")
    assert isinstance(google.session, AuthorizedSession)


@pytest.mark.parametrize(
    ("variable", "value", "of_terraform"),
    [
        ("GOOGLE_CREDENTIALS", "gcloud/application_default_credentials.json", "GOOGLE_CREDENTIALS"),
        (
            "GOOGLE_APPLICATION_CREDENTIALS",
            "gcloud/application_default_credentials.json",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        ("CLOUDSDK_CONFIG", "gcloud", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_terraform_finds_the_same_key_file_from_another_directory(
    no_credentials: None, variable: str, value: str, of_terraform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir()
    credentials = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    file.write_text(json.dumps(credentials))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "")  # as if unset; it is restored after the test
    monkeypatch.setenv(variable, value)
    assert Google().session.credentials.client_id == "i"
    assert os.environ[of_terraform] == str(file)


@pytest.mark.parametrize("content", ["{broken", "/nowhere/key.json", '{"type": "unheard-of"}'])
def test_unreadable_credentials_are_refused(
    no_credentials: None, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CREDENTIALS", content)
    with pytest.raises(PreflightError, match="no usable Google credentials"):
        Google()
