"""Alertmanager's configuration: receivers of alerts, grouping, and inhibition of redundant alerts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator import state
from orchestrator.config import Config, Receiver, expanded
from orchestrator.errors import ConfigError
from orchestrator.schema.bounded_files import Unreadable, read_text
from orchestrator.state import StateDir

EVERYONE = "everyone"
MOST = 4096  # bytes of a password file
# Slack refuses the JSON that Alertmanager posts to other webhooks.
SLACK = ("hooks.slack.com", "hooks.slack-gov.com")
SLACK_TEXT = "{{ range .Alerts }}{{ .Status }}: {{ .Annotations.summary }}\n{{ .Annotations.description }}\n{{ end }}"
# Cause, and effects that are not sent while the cause fires for the same node.
FOLLOWS = {"NodeDown": "ExporterDown|GpuGone|RankSlow|LinkErrors|LinkDrops"}


def saved(state_dir: StateDir) -> Path:
    """Return the path of the file that Ansible copies to the head."""
    return state_dir.ansible / "alertmanager.json"


def save(state_dir: StateDir, config: Config) -> None:
    """Write the file at :func:`saved`, readable only by its owner. Raises ConfigError as :func:`configuration` does."""
    if config.monitoring.enabled:
        content = configuration(config.monitoring.receivers)
        state.replace(saved(state_dir), json.dumps(content, indent=2) + "\n")


def configuration(receivers: Sequence[Receiver]) -> dict[str, Any]:
    """Build the content of alertmanager.yml, with options that Alertmanager 0.23 has.

    It holds passwords, so the file must have mode 0600. Raises ConfigError if a password cannot be read.
    https://prometheus.io/docs/alerting/latest/configuration/
    """
    webhooks = [receiver.webhook for receiver in receivers if receiver.webhook]
    receiver_of_all = {
        "name": EVERYONE,
        "email_configs": [_email(number, receiver) for number, receiver in enumerate(receivers) if receiver.email],
        "webhook_configs": [{"url": url} for url in webhooks if urlsplit(url).hostname not in SLACK],
        "slack_configs": [_slack(url) for url in webhooks if urlsplit(url).hostname in SLACK],
    }
    return {
        "route": {
            "receiver": EVERYONE,
            "group_by": ["alertname"],
            "group_wait": "10s",
            "group_interval": "1m",
            "repeat_interval": "4h",
        },
        "inhibit_rules": [
            {
                "source_matchers": [f"alertname={cause}"],
                "target_matchers": [f"alertname=~{effects}", 'node!=""'],
                "equal": ["node"],
            }
            for cause, effects in FOLLOWS.items()
        ],
        "receivers": [receiver_of_all],
    }


def _slack(url: str) -> dict[str, Any]:
    """Build the entry of an incoming webhook of Slack, which posts to its own channel."""
    return {"api_url": url, "text": SLACK_TEXT, "send_resolved": True}


def _email(number: int, receiver: Receiver) -> dict[str, Any]:
    entry: dict[str, Any] = {"to": receiver.email, "from": receiver.sender or receiver.email}
    entry |= {"smarthost": receiver.smarthost, "require_tls": receiver.tls}
    if receiver.password_file:
        key = f"monitoring.receivers.{number}.password_file"
        entry |= {"auth_username": receiver.username, "auth_password": _password(key, receiver.password_file)}
    return {**entry, "send_resolved": True}


def _password(key: str, path: Path) -> str:
    try:
        text = read_text(expanded(key, path), MOST).strip()
    except (FileNotFoundError, Unreadable) as error:
        reason = error.reason if isinstance(error, Unreadable) else error.strerror
        raise ConfigError([f"{key}: {path}: {reason}"], "name a file with the password and nothing else") from None
    if not text or "\n" in text:
        raise ConfigError([f"{key}: {path}: expected one line, the password"], "correct the file")
    return text
