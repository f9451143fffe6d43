"""Connection to an OpenStack cloud, with its errors translated to those of orchestrator.errors."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import keystoneauth1.exceptions as trouble
from openstack.exceptions import HttpException, SDKException

from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.providers.openstack.api import credentials
from orchestrator.providers.openstack.api.credentials import error_message

VOLUMES = "block-storage"

for _logger in ("keystoneauth", "openstack"):  # their warnings are repeated as errors of this package
    logging.getLogger(_logger).addHandler(logging.NullHandler())


class Cloud:
    """Connection to a cloud, and the project of the credentials."""

    def __init__(self, entry: str | None, seconds: float = credentials.ANSWER_SECONDS) -> None:
        """Log in to ``entry`` of clouds.yaml, or to the environment's cloud. Raise PreflightError if that fails."""
        self.connection = credentials.connection(entry, seconds)
        if path := credentials.clouds_file():  # Terraform runs in another directory, and must find the same file
            os.environ["OS_CLIENT_CONFIG_FILE"] = str(path)
        self.entry = self.connection.config.name if self.connection.config.name in credentials.entries() else None
        if self.entry:
            credentials.hide_variables()
        self.title = f"cloud {self.entry!r}" if self.entry else "the cloud of OS_AUTH_URL"
        self.url = str(self.connection.config.get_auth_args().get("auth_url", ""))
        with self._logging_in():
            self.connection.session.get_token()
        self.project = str(self.connection.current_project_id or "")
        if not self.project:
            raise PreflightError(
                f"{self.title}: the credentials are for no project", "set project_name with the credentials"
            )

    @contextmanager
    def _logging_in(self) -> Iterator[None]:
        try:
            with asking("log in", "token", "issue", url=self.url):
                yield
        except CommandFailed as failed:
            words = error_message(failed.__cause__ or failed)
            unknown = isinstance(failed.__cause__, trouble.NotFound) and words.startswith("Could not find")
            if unknown or isinstance(failed.__cause__, trouble.Unauthorized):
                hint = "check user name, password (or application credential), project and their domains"
                raise PreflightError(f"{self.title} refuses the credentials: {words}", hint) from failed
            raise PreflightError(f"{self.title}: no login at {self.url}: {words}", "check auth_url") from failed
        except PreflightError:
            raise
        except Exception as error:  # keystoneauth checks no types, and raises Exception for a missing password
            hint = "complete or correct the entry in clouds.yaml, or the OS_* variables"
            lack = "incomplete" if type(error) is Exception else "unusable"
            raise PreflightError(f"{self.title}: the credentials are {lack}: {error_message(error)}", hint) from error

    @property
    def login(self) -> dict[str, str | None]:
        """Return project, region, interface and certificate of the login, which Terraform must use too."""
        settings = self.connection.config
        cacert = settings.config.get("cacert")
        return {
            "project": self.project,
            "region": settings.region_name or None,
            "interface": settings.config.get("interface") or None,
            "cacert": str(Path(cacert).absolute()) if cacert else None,
        }

    def endpoint(self, service: str) -> str | None:
        """Return the URL of ``service`` in the region of the credentials; None if the cloud does not have it."""
        return self.connection.endpoint_for(service)

    @property
    def host(self) -> str:
        """Return the name or address of the compute service."""
        return urlsplit(self.endpoint("compute") or self.url).hostname or ""

    def require(self, service: str) -> None:
        """Raise PreflightError if ``service`` is not in the catalogue, or does not answer."""
        endpoint, region = self.endpoint(service), self.connection.config.region_name
        if endpoint is None:
            where = f" in region {region}" if region else ""
            hint = "check region_name (OS_REGION_NAME), or use a cloud that has it"
            raise PreflightError(f"{self.title} has no {service} service{where}", hint)
        with asking(f"reach {service}", "versions", "show", url=endpoint):
            self.connection.session.get(endpoint, raise_exc=False, authenticated=False)


@contextmanager
def asking(step: str, *words: str, url: str = "") -> Iterator[None]:
    """Translate errors of the cloud to errors that name the step and the equivalent command of the openstack client.

    Args:
        step: Name of the step.
        *words: Arguments of the openstack client.
        url: Address that is asked, for messages.

    Raises:
        PreflightError: The cloud does not answer, or its certificate is not trusted.
        CommandFailed: The cloud refused the request.
    """
    try:
        yield
    except trouble.SSLError as error:
        hint = "name the site's certificate authority in clouds.yaml (cacert), or in OS_CACERT"
        raise PreflightError(f"OpenStack's certificate is not trusted: {url or error_message(error)}", hint) from error
    except (trouble.ConnectionError, trouble.DiscoveryFailure) as error:
        hint = "check auth_url and interface in clouds.yaml, and whether this machine reaches the site (VPN?)"
        raise PreflightError(f"OpenStack does not answer: {url or error_message(error)}", hint) from error
    except (SDKException, trouble.ClientException) as error:
        raise CommandFailed(step, ["openstack", *words], _code(error), [error_message(error)]) from error


def _code(error: Exception) -> str:
    code = error.status_code if isinstance(error, HttpException) else getattr(error, "http_status", None)
    return f"HTTP {code}" if code else type(error).__name__
