"""The password of Grafana's user, kept on this side: a role of Ansible's reads it there."""

import contextlib
import secrets
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import StateError
from orchestrator.state import Home

USER = "admin"


class Secret(BaseModel):
    """What ``Home.monitoring`` holds."""

    password: str


@contextlib.contextmanager
def settled(place: Home, wanted: Config) -> Iterator[None]:
    """Around a deploy. The password is there before the head needs it, and goes once the head is rid of monitoring.

    So as long as there is one the head has, or may have, Prometheus and Grafana.
    """
    if wanted.monitoring.enabled:
        _keep(place, wanted.monitoring_password)
    yield
    if not wanted.monitoring.enabled:
        place.monitoring.unlink(missing_ok=True)


def _keep(place: Home, given: str | None) -> None:
    kept = read(place)
    password = given or kept or secrets.token_urlsafe(16)
    if kept != password:
        state.replace(place.monitoring, Secret(password=password).model_dump_json(indent=2) + "\n")


def read(place: Home) -> str | None:
    """The password; None where there is no monitoring. Raises StateError where the file cannot be read."""
    try:
        return Secret.model_validate_json(place.monitoring.read_text()).password
    except FileNotFoundError:
        return None
    except ValidationError as error:  # whose own words hold what was read
        raise StateError(f"{place.monitoring} holds no password", "remove it: a deploy makes another") from error
    except OSError as error:
        raise StateError(f"{place.monitoring} cannot be read: {error.strerror}", "make it readable for you") from error
