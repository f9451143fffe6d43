"""Receivers of alerts, and the places where their passwords are not."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.config import Config, Receiver
from orchestrator.errors import ConfigError
from orchestrator.lifecycle import host_vars
from orchestrator.monitoring import alert_receivers
from tests import builders

MAIL = {"email": "someone@example.org", "smarthost": "mail.example.org:587"}


def receiver_of(*receivers: dict[str, Any]) -> dict[str, Any]:
    """Return the only receiver of Alertmanager's configuration."""
    configuration = alert_receivers.configuration([Receiver(**values) for values in receivers])
    [receiver] = configuration["receivers"]
    return receiver  # type: ignore[no-any-return]


def test_alerts_without_receivers_are_only_shown() -> None:
    assert receiver_of() == {"name": "everyone", "email_configs": [], "webhook_configs": [], "slack_configs": []}


def test_mail_comes_from_its_recipient_unless_configured() -> None:
    senders = [entry["from"] for entry in receiver_of(MAIL, {**MAIL, "from": "cluster@example.org"})["email_configs"]]
    assert senders == ["someone@example.org", "cluster@example.org"]


def test_mail_requires_tls_unless_disabled() -> None:
    entries = receiver_of(MAIL, {**MAIL, "tls": False})["email_configs"]
    assert [entry["require_tls"] for entry in entries] == [True, False]


def test_webhook_is_called_at_its_address() -> None:
    assert receiver_of({"webhook": "https://example.org/alerts"})["webhook_configs"] == [
        {"url": "https://example.org/alerts"}
    ]


@pytest.mark.parametrize("host", ["hooks.slack.com", "hooks.slack-gov.com", "Hooks.Slack.com:443"])
def test_slack_gets_messages_instead_of_json(host: str) -> None:
    url = f"https://{host}/services/T0/B0/x"
    receiver = receiver_of({"webhook": url}, {"webhook": "https://example.org/hooks.slack.com"})
    assert receiver["webhook_configs"] == [{"url": "https://example.org/hooks.slack.com"}]
    (entry,) = receiver["slack_configs"]
    assert (entry["api_url"], entry["send_resolved"]) == (url, True)
    assert "{{ .Annotations.summary }}" in entry["text"]


def test_lost_gpu_is_sent_while_another_exporter_of_its_node_is_down() -> None:
    """GpuGone fires only while the exporter of the GPUs answers: another exporter that is down is not its cause."""
    rules = alert_receivers.configuration([])["inhibit_rules"]
    causes = [rule["source_matchers"] for rule in rules if "GpuGone" in rule["target_matchers"][0]]
    assert causes == [["alertname=NodeDown"]]


def test_password_is_read_from_its_file_without_line_end(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    (entry,) = receiver_of({**MAIL, "username": "someone", "password_file": tmp_path / "password"})["email_configs"]
    assert (entry["auth_username"], entry["auth_password"]) == ("someone", "s3cret")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"", "expected one line"), (b"a\nb", "one line"), (b"\xff", "text")],
)
def test_unreadable_password_is_named_with_its_key(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        receiver_of({"webhook": "https://a/b"}, {**MAIL, "username": "someone", "password_file": path})
    assert caught.value.problems[0].startswith(f"monitoring.receivers.1.password_file: {path}: ")


def test_ansible_variables_have_no_password_and_file_is_private(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret")
    receiver = {**MAIL, "username": "someone", "password_file": str(tmp_path / "password")}
    config = Config.model_validate({"name": "demo", "monitoring": {"receivers": [receiver], "retention_time": "8w"}})
    state_dir, cluster = builders.deployed("demo"), builders.cluster()
    record = state.Record(id="1a2b3c4d", config=config.model_dump(mode="json"), cluster=cluster)
    alert_receivers.save(state_dir, config)
    variables = host_vars.for_ansible(state_dir, record, cluster)
    assert "s3cret" not in json.dumps(variables) + record.model_dump_json()
    path = Path(variables["monitoring_alertmanager"])
    assert "s3cret" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert variables["monitoring_secret"] == str(state_dir.monitoring)
    keys = ("state", "grafana", "retention_time", "retention_size")
    assert {key: variables[f"monitoring_{key}"] for key in keys} == {
        "state": "present", "grafana": "auto", "retention_time": "8w", "retention_size": "10GB",
    }  # fmt: skip


def test_monitoring_watches_the_configured_network_interface() -> None:
    state_dir, cluster = builders.deployed("demo"), builders.cluster()
    for launch, expected in (({}, None), ({"network_interface": "ib0"}, "ib0")):
        config = Config.model_validate({"name": "demo", "launch": launch})
        record = state.Record(id="1a2b3c4d", config=config.model_dump(mode="json"), cluster=cluster)
        variables = host_vars.for_ansible(state_dir, record, cluster)
        assert variables.get("monitoring_interface") == expected


def test_alertmanager_is_removed_only_from_monitored_clusters() -> None:
    state_dir, cluster = builders.deployed("demo"), builders.cluster()
    config = Config.model_validate({"name": "demo", "monitoring": {"enabled": False}})
    record = state.Record(id="1a2b3c4d", config=config.model_dump(mode="json"), cluster=cluster)
    assert not any(name.startswith("monitoring") for name in host_vars.for_ansible(state_dir, record, cluster))
    state_dir.monitoring.write_text("{}")
    variables = host_vars.for_ansible(state_dir, record, cluster)
    assert (variables["monitoring"], variables["monitoring_state"]) == (True, "absent")
