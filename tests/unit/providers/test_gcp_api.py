"""The client of Google's API: who asks, where, and what becomes of every kind of answer."""

import json
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
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


def test_what_is_not_there_is_none(there: StandIn) -> None:
    google = Google()
    assert google.find(f"{HERE}/zones/nowhere") is None
    assert (google.find(f"{HERE}/zones/{ZONE}") or {})["name"] == ZONE


def test_a_link_and_its_path_are_the_same_thing() -> None:
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
def test_a_refusal_is_an_error_with_google_s_words_and_a_remedy(
    there: StandIn, answer: Any, kind: type[OrchestratorError], message: str, hint: str
) -> None:
    there.refused["zones"] = answer
    with pytest.raises(kind, match=message) as caught:
        Google().find(f"{HERE}/zones/{ZONE}")
    assert hint in caught.value.hint.replace("project's", "the")


def test_a_busy_google_is_asked_again(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BACKOFF", 0.0)
    there.busy = 2
    assert Google().find(HERE)
    assert there.asked == [f"GET /compute/{HERE}"] * 3


def test_every_page_of_a_list_is_read(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stand_ins.google_stand_in_memory.PAGE", 1)
    for name in "abc":
        there.put(f"{HERE}/global/networks/{name}")
    assert [item["name"] for item in Google().items(f"{HERE}/global/networks")] == ["a", "b", "c"]


def test_a_list_is_not_taken_for_whole_where_a_zone_does_not_answer(there: StandIn) -> None:
    there.unreachable = "us-west1-b"
    with pytest.raises(CommandFailed, match="us-west1-b"):
        Google().everywhere(PROJECT, "instances")


def test_an_operation_is_waited_for_and_its_error_is_ours(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    google = Google()
    operation = google.call("POST", f"{HERE}/global/networks", body={"name": "n"})
    assert operation
    assert operation["status"] == "RUNNING"
    google.finish(operation, "make a network")
    there.failing["networks/n"] = "QUOTA_EXCEEDED"
    gone = google.call("DELETE", f"{HERE}/global/networks/n")
    with pytest.raises(CommandFailed, match=r"remove a network: .*QUOTA_EXCEEDED"):
        google.finish(gone or {}, "remove a network")
    monkeypatch.setattr(client, "OPERATION_SECONDS", -1.0)
    with pytest.raises(CommandFailed, match="no end within"):
        google.finish(operation, "make a network")


def test_where_nothing_listens_the_variable_that_leads_there_is_named(
    there: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "http://127.0.0.1:9/compute")
    monkeypatch.setattr(client, "BACKOFF", 0.0)
    with pytest.raises(PreflightError, match="does not answer") as caught:
        Google().find(HERE)
    assert "GOOGLE_COMPUTE_CUSTOM_ENDPOINT" in caught.value.hint


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, and no machine of Google's own to ask for some."""
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
    monkeypatch.setenv("PATH", "/nowhere")  # no gcloud that could know a project


def test_without_credentials_the_command_that_gives_some_is_named(nobody: None) -> None:
    with pytest.raises(PreflightError, match="no usable Google credentials") as caught:
        Google()
    assert "gcloud auth application-default login" in caught.value.hint


@pytest.mark.parametrize("inline", [True, False])
def test_google_credentials_is_a_path_or_what_stands_there_as_for_terraform(
    nobody: None, inline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    (tmp_path / "key.json").write_text(json.dumps(credentials))
    monkeypatch.setenv("GOOGLE_CREDENTIALS", json.dumps(credentials) if inline else str(tmp_path / "key.json"))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "ours")
    google = Google()
    assert (google.project, google.session.credentials.refresh_token) == ("ours", "t")
    assert isinstance(google.session, AuthorizedSession)


@pytest.mark.parametrize("content", ["{broken", "/nowhere/key.json", '{"type": "unheard-of"}'])
def test_credentials_that_cannot_be_read_are_refused(
    nobody: None, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CREDENTIALS", content)
    with pytest.raises(PreflightError, match="no usable Google credentials"):
        Google()
