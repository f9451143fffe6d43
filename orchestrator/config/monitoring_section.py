"""Section `monitoring` of cluster.yaml."""

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from orchestrator.config.section import Section
from orchestrator.schema.bounded_files import shown

# The values of Prometheus and Alertmanager that make sense here, each with an example for the error message.
ADDRESS = r"[^@\s]+@[^@\s]+"
FORMS = {
    "email": (ADDRESS, "someone@example.org"),
    "sender": (ADDRESS, "someone@example.org"),
    "smarthost": (r"[^\s:/]+:[0-9]{1,5}", "mail.example.org:587"),
    "webhook": (r"https?://[^\s/]\S*", "https://example.org/alerts"),
    "grafana_image": (r"[a-z0-9][A-Za-z0-9_.:/-]*(@sha256:[0-9a-f]{64})?", "registry.example.org/grafana:12.0.2"),
    "retention_time": (r"[1-9][0-9]*[hdwy]", "12h, 30d, 8w or 1y"),
    "retention_size": (r"[1-9][0-9]*(MB|GB|TB)", "500MB, 10GB or 1TB"),
}
HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}
MAX_YEARS = 100  # Prometheus does not start with more than 292, which overflow its nanoseconds


class Receiver(Section):
    """Receiver of alerts: an e-mail address, with the server that takes the mail, or a webhook."""

    model_config = ConfigDict(populate_by_name=True)  # state files hold the field's name

    email: str | None = Field(None, description="address that alerts are mailed to")
    smarthost: str | None = Field(None, description="HOST:PORT of the mail server")
    sender: str | None = Field(None, alias="from", description="sender of the mail; default: the receiver's address")
    username: str | None = Field(None, min_length=1, description="account on that server")
    password_file: Path | None = Field(None, description="file on this machine with that account's password")
    tls: bool = Field(True, description="send mail only over TLS; false: for a server without TLS")
    webhook: str | None = Field(
        None, description="http(s) address that alerts are posted to, as JSON or, to Slack, as messages"
    )

    @field_validator("email", "smarthost", "sender", "webhook")
    @classmethod
    def _well_formed(cls, value: str | None, field: ValidationInfo) -> str | None:
        return value and well_formed(value, field)

    @model_validator(mode="after")
    def _one_way(self) -> "Receiver":
        mail = [name for name in ("smarthost", "sender", "username", "password_file") if getattr(self, name)]
        mail += [] if self.tls else ["tls"]
        if bool(self.email) == bool(self.webhook):
            raise ValueError("either `email` or `webhook`: write two receivers to use both")
        if self.email and not self.smarthost:
            raise ValueError(f"email {self.email} needs `smarthost: HOST:PORT`, the mail server")
        if self.webhook and mail:
            raise ValueError(f"webhook {self.webhook} goes without {', '.join(mail).replace('sender', 'from')}")
        if bool(self.username) != bool(self.password_file):
            raise ValueError("`username` and `password_file`: set both or neither")
        return self


class Monitoring(Section):
    """Prometheus, Alertmanager and Grafana on the head, exporters on every node."""

    enabled: bool = Field(True, description="whether the cluster has monitoring")
    grafana: Literal["auto", "on", "off"] = Field(
        "auto", description="Grafana: auto (if it can be downloaded), on (a deploy fails without it) or off"
    )
    grafana_image: str | None = Field(None, description="image of Grafana's container; default: a pinned version")
    retention_time: str = Field("30d", description="how long metrics are kept: 12h, 30d, 8w or 1y")
    retention_size: str = Field("10GB", description="disk of the head that metrics may use: 500MB, 10GB or 1TB")
    receivers: list[Receiver] = Field(
        [], description="receivers of alerts: {email, smarthost, from, username, password_file, tls} or {webhook}"
    )

    @field_validator("grafana", mode="before")
    @classmethod
    def _yaml_words(cls, value: Any) -> Any:
        """Translate true and false back: YAML reads on and off as booleans."""
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @field_validator("grafana_image", "retention_time", "retention_size")
    @classmethod
    def _well_formed(cls, value: str | None, field: ValidationInfo) -> str | None:
        return value and well_formed(value, field)


def well_formed(value: str, field: ValidationInfo) -> str:
    """Return ``value``. Raise ValueError if it does not have the form of its field."""
    form, example = FORMS[field.field_name or ""]
    if not re.fullmatch(form, value):
        raise ValueError(f"{shown(value)}: write it like {example}")
    if field.field_name == "smarthost" and not 0 < int(value.rpartition(":")[2]) < 1 << 16:
        raise ValueError(f"{shown(value)}: a port is 1 to 65535")
    if field.field_name == "retention_time" and int(value[:-1]) * HOURS[value[-1]] > MAX_YEARS * HOURS["y"]:
        raise ValueError(f"{shown(value)}: at most {MAX_YEARS} years")
    return value
