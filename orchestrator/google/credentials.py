"""Who asks: found in the environment as Terraform's provider finds it, and never written down by us."""

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import google.auth
from google.auth.credentials import Credentials
from google.oauth2.credentials import Credentials as Token

from orchestrator.errors import PreflightError
from orchestrator.schema import bounded
from orchestrator.schema.bounded import Unreadable

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
PROJECT = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
LOGIN = "`gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"


def found() -> tuple[Credentials, str | None]:
    """The credentials, and the project that the environment or they themselves name.

    Raises PreflightError where there are none.
    """
    try:
        _require_documents()
        credentials, project = _found()
    except Exception as error:  # google-auth does not check what a key file holds: any kind may come
        raise PreflightError(f"no usable Google credentials: {error}", LOGIN) from error
    return credentials, next((os.environ[name] for name in PROJECT if os.environ.get(name)), project)


def _require_documents() -> None:
    """Raises Unreadable, with the name of the variable or file, if what google-auth will read is no JSON object."""
    given = os.environ.get("GOOGLE_CREDENTIALS", "")
    directory = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")  # noqa: PTH111
    files = [os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"), f"{directory}/application_default_credentials.json"]
    if given.lstrip().startswith("{"):
        _require_object("GOOGLE_CREDENTIALS", bounded.load_json(given, "GOOGLE_CREDENTIALS"))
    elif given:
        files.append(given)
    for path in filter(None, files):
        with suppress(FileNotFoundError):
            _require_object(str(path), bounded.read_json(Path(path)))


def _require_object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise Unreadable(name, f"expected a JSON object with credentials, found {type(value).__name__}")


def _found() -> tuple[Credentials, str | None]:
    token, given = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"), os.environ.get("GOOGLE_CREDENTIALS")
    if token:
        return Token(token), None  # type: ignore[no-untyped-call]
    if given:
        return _loaded(given)
    return google.auth.default(scopes=SCOPES)


def _loaded(given: str) -> tuple[Credentials, str | None]:
    """Of GOOGLE_CREDENTIALS, which has the path of a key file or what stands in one."""
    inline = given.lstrip().startswith("{")
    load: Any = google.auth.load_credentials_from_dict if inline else google.auth.load_credentials_from_file
    with warnings.catch_warnings():  # whose contents could harm us: these are the user's own
        warnings.simplefilter("ignore", DeprecationWarning)
        credentials, project = load(json.loads(given) if inline else given, scopes=SCOPES)
    return credentials, project
