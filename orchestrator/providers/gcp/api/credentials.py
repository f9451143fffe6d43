"""Credentials, found in the environment as Terraform's provider finds them. They are never written to a file."""

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import PreflightError
from orchestrator.lazy_imports import LazyModule
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable

if TYPE_CHECKING:
    from google import auth
    from google.auth.credentials import Credentials
    from google.oauth2 import credentials as oauth2
else:
    auth, oauth2 = LazyModule("google.auth"), LazyModule("google.oauth2.credentials")

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
PROJECT = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
OF_TERRAFORM = ("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")
LOGIN = "`gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"


def find() -> "tuple[Credentials, str | None]":
    """Return the credentials, and the project that the environment or the credentials name.

    Raises:
        PreflightError: There are no usable credentials.
    """
    try:
        _require_documents()
        _name_files_for_terraform()
        credentials, project = _default_credentials()
    except Exception as error:  # google-auth does not validate key files: any exception is possible
        raise PreflightError(f"no usable Google credentials: {error}", LOGIN) from error
    return credentials, next((os.environ[name] for name in PROJECT if os.environ.get(name)), project)


def require_one_identity() -> None:
    """Raise PreflightError if a variable is set that only Terraform's provider reads: it would act as another user."""
    for name in filter(os.environ.get, OF_TERRAFORM):
        raise PreflightError(
            f"{name} is set: Terraform would use other Google credentials than the other calls",
            f"`unset {name}`, and set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run "
            "`gcloud auth application-default login --impersonate-service-account=ACCOUNT`",
        )


def _name_files_for_terraform() -> None:
    """Name the files by absolute paths, since Terraform runs in another directory, and ignores CLOUDSDK_CONFIG."""
    moved = os.environ.get("CLOUDSDK_CONFIG") and Path(_login_file()).exists()
    if moved and not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = _login_file()
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS"):
        value = os.environ.get(name)
        if value and not _is_content(value):
            os.environ[name] = str(Path(value).absolute())


def _login_file() -> str:
    """Return the file that `gcloud auth application-default login` writes."""
    directory = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")  # noqa: PTH111
    return f"{directory}/application_default_credentials.json"


def _is_content(text: str) -> bool:
    """Tell whether GOOGLE_CREDENTIALS holds the content of a key file, not its path."""
    return text.lstrip().startswith("{")


def _require_documents() -> None:
    """Raise Unreadable, with the name of the variable or file, if google-auth would not read a JSON object."""
    text = os.environ.get("GOOGLE_CREDENTIALS", "")
    files = [os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"), _login_file()]
    if _is_content(text):
        _require_object("GOOGLE_CREDENTIALS", bounded_files.load_json(text, "GOOGLE_CREDENTIALS"))
    elif text:
        files.append(text)
    for path in filter(None, files):
        with suppress(FileNotFoundError):
            _require_object(str(path), bounded_files.read_json(Path(path)))


def _require_object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise Unreadable(name, f"expected a JSON object with credentials, found {type(value).__name__}")


def _default_credentials() -> "tuple[Credentials, str | None]":
    token, named = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"), os.environ.get("GOOGLE_CREDENTIALS")
    if token:
        return oauth2.Credentials(token), None  # type: ignore[no-untyped-call]
    if named:
        return _loaded(named)
    return auth.default(scopes=SCOPES)


def _loaded(text: str) -> "tuple[Credentials, str | None]":
    """Load GOOGLE_CREDENTIALS, which holds the path of a key file or the content of one."""
    inline = _is_content(text)
    load: Any = auth.load_credentials_from_dict if inline else auth.load_credentials_from_file
    with warnings.catch_warnings():  # google-auth warns of files from untrusted sources: this one is the user's own
        warnings.simplefilter("ignore", DeprecationWarning)
        credentials, project = load(json.loads(text) if inline else text, scopes=SCOPES)
    return credentials, project
