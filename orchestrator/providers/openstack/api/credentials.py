"""Credentials as openstacksdk finds them: in clouds.yaml or the environment. They are not stored anywhere else."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keystoneauth1.exceptions as trouble
import openstack
from openstack.config import OpenStackConfig, loader
from openstack.connection import Connection
from pydantic import BaseModel, ValidationError

from orchestrator.config import nearest, yaml_documents
from orchestrator.errors import PreflightError
from orchestrator.schema.bounded_files import Unreadable, problems

ANSWER_SECONDS = 60
KEPT = ("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE", "OS_CLOUD")
# Plugins of keystoneauth that terraform-provider-openstack 3.4 has too, by its documentation.
TERRAFORM_LOGINS = ("password", "v3password", "token", "v3token", "v3applicationcredential")
# Its secure.yaml is one of these: version 3.4 knows no variable for it, and runs in a directory of its own.
TERRAFORM_SECURE_FILES = ("~/.config/openstack/secure.yaml", "/etc/openstack/secure.yaml")
DOWNLOAD_HINT = "download clouds.yaml from the site's dashboard (API Access) to ~/.config/openstack/clouds.yaml"


def clouds_file() -> Path | None:
    """Return the clouds.yaml that openstacksdk uses. Terraform runs in another directory and needs its path."""
    return _file()[0]


def entries() -> list[str]:
    """Return the clouds that clouds.yaml names."""
    return sorted(_file()[1])


def connection(entry: str | None, seconds: float = ANSWER_SECONDS) -> Connection:
    """Return a connection to ``entry`` of clouds.yaml, or to the cloud in the environment. Nothing is sent yet.

    The cloud has ``seconds`` for each answer.

    Raises:
        PreflightError: The credentials are missing, incomplete or unusable.
    """
    name = entry or os.environ.get("OS_CLOUD")
    if name:
        _require_entry("openstack.cloud" if entry else "OS_CLOUD", name)
    try:
        return openstack.connect(cloud=name, api_timeout=seconds)
    except trouble.MissingRequiredOptions as error:
        hint = f"name an entry of clouds.yaml with openstack.cloud, or {DOWNLOAD_HINT}"
        raise PreflightError(f"OpenStack's credentials are incomplete: {error_message(error)}", hint) from error
    except Exception as error:  # the SDK and its plugins check no types: the entry may hold anything
        where = f"{clouds_file()}: {name}" if name else "OS_* in the environment"
        hint = "keys of a login are under auth; cacert, verify, regions and others are on the same level as auth"
        raise PreflightError(
            f"OpenStack's credentials cannot be used: {where}: {error_message(error)}", hint
        ) from error


def hide_variables() -> None:
    """Remove OS_* variables that openstacksdk ignores for an entry of clouds.yaml: Terraform prefers some of them."""
    for name in [name for name in os.environ if name.startswith("OS_") and name not in KEPT]:
        del os.environ[name]


def require_terraform_login(connection: Connection, entry: str | None) -> None:
    """Check that Terraform's provider can log in as openstacksdk did.

    Raises:
        PreflightError: The entry uses something that the provider does not have.
    """
    kind = connection.config.config.get("auth_type") or "password"
    if kind not in TERRAFORM_LOGINS:
        raise PreflightError(
            f"OpenStack's credentials: auth_type {kind} is unknown to Terraform's provider",
            "create an application credential (`openstack application credential create orchestrator`), and name it in "
            "clouds.yaml with auth_type: v3applicationcredential",
        )
    profile = (_file()[1].get(entry or "") or {}).get("profile")
    if profile:
        raise PreflightError(
            f"{clouds_file()}: {entry}: profile: {profile} is unknown to Terraform's provider",
            f"replace it with auth_url: {connection.config.get_auth_args().get('auth_url')} below auth",
        )
    path = _secure_file(entry)
    if path and path.resolve() not in [Path(known).expanduser().resolve() for known in TERRAFORM_SECURE_FILES]:
        raise PreflightError(
            f"{path}: it has secrets of {entry}, and Terraform's provider does not read it",
            f"move it to {TERRAFORM_SECURE_FILES[0]}, or its entry to {clouds_file()}",
        )


def _require_entry(key: str, name: str) -> None:
    path, cloud_entries = _file()
    if path is None:
        raise PreflightError(
            f"{key}: there is no clouds.yaml, or none that can be read, to have {name!r}", DOWNLOAD_HINT
        )
    if name not in cloud_entries:
        hint = f"it has {', '.join(sorted(cloud_entries))}" if cloud_entries else DOWNLOAD_HINT
        raise PreflightError(f"{key}: {name!r} is not in {path}{nearest(name, list(cloud_entries))}", hint)


def _file() -> tuple[Path | None, Mapping[str, Any]]:
    """Return the path and the entries of clouds.yaml. Raise PreflightError if such a file exists and is invalid."""
    try:
        named = (os.environ.get("OS_CLIENT_CONFIG_FILE"), os.environ.get("OS_CLIENT_SECURE_FILE"))
        for path in (*named, *loader.CONFIG_FILES, *loader.SECURE_FILES):
            _require_entries(Path(path or ""))
        # Copies: openstacksdk 4.13, the last for Python 3.10, adds the file of the environment to its own lists.
        files, secure_files = list(loader.CONFIG_FILES), list(loader.SECURE_FILES)
        os_config = OpenStackConfig(config_files=files, secure_files=secure_files, load_envvars=True)
    except Unreadable as error:
        raise PreflightError(str(error), f"correct it, or {DOWNLOAD_HINT}") from error
    except Exception as error:  # as above
        raise PreflightError(f"clouds.yaml cannot be used: {error_message(error)}", DOWNLOAD_HINT) from error
    clouds = (os_config.cloud_config or {}).get("clouds") or {}
    placeholders = (os_config.envvar_key, "defaults")  # openstacksdk's names for clouds without an entry
    path = os_config.config_filename
    return (Path(path).absolute() if path else None), {n: e for n, e in clouds.items() if n not in placeholders}


def _secure_file(entry: str | None) -> Path | None:
    """Return the secure.yaml if it has secrets of ``entry``. openstacksdk uses the first file that it can read."""
    paths = [Path(path) for path in (os.environ.get("OS_CLIENT_SECURE_FILE"), *loader.SECURE_FILES) if path]
    found = next((path for path in paths if os.access(path, os.R_OK)), None)
    return found if found and entry in ((yaml_documents.read(found) or {}).get("clouds") or {}) else None


class _Entry(BaseModel):
    auth: dict[str, str | int | float | bool | None] | None = None
    region_name: str | None = None
    regions: list[str | dict[str, Any]] | None = None


class _Clouds(BaseModel):
    clouds: dict[str, _Entry] | None = None


def _require_entries(path: Path) -> None:
    """Raise Unreadable for a file that openstacksdk would read, skip or fail at, although it holds no clouds."""
    if not path.is_file() and not path.is_fifo():
        return
    try:
        _Clouds.model_validate(yaml_documents.read(path) or {})
    except ValidationError as error:
        raise Unreadable(path, problems(error, values=False)) from None  # a value may be a password
    except Unreadable as error:
        if not isinstance(error.__cause__, PermissionError):  # openstacksdk skips files it may not read
            raise


def error_message(error: BaseException) -> str:
    """Return the first line of an error's message, without the number of the request."""
    return (str(error).partition(" (Request-ID")[0].splitlines() or [type(error).__name__])[0]
