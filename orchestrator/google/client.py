"""A REST client with deadlines, and with errors that name their remedy."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import requests
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.google import credentials

ENDPOINTS = {  # by API: the variable that changes it, and what it is otherwise
    "compute": ("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "https://compute.googleapis.com/compute/v1/"),
    "iam": ("GOOGLE_IAM_BETA_CUSTOM_ENDPOINT", "https://iam.googleapis.com/v1/"),
    "cloudresourcemanager": (
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
        "https://cloudresourcemanager.googleapis.com/v1/",
    ),
}
SECONDS: Any = (10, 60)  # to be connected, and from then on between two words of the answer
OPERATION_SECONDS, LOOK_SECONDS = 600.0, 1.0
AT_ONCE = 8  # requests under way together
BACKOFF = 0.5  # seconds before the second of five tries; each further time it doubles
BUSY = (429, 500, 502, 503, 504)

Document = dict[str, Any]
Words = Mapping[str, str]
Answer = TypeVar("Answer")


class Google:
    """The user's access; ``project`` is the one that the environment or the credentials name, if any."""

    def __init__(self) -> None:
        """Raises PreflightError where there are no credentials."""
        found, self.project = credentials.found()
        self.session = AuthorizedSession(found)  # type: ignore[no-untyped-call]
        again = HTTPAdapter(
            pool_maxsize=AT_ONCE,
            max_retries=Retry(total=4, backoff_factor=BACKOFF, status_forcelist=BUSY, raise_on_status=False),
        )
        self.session.mount("https://", again)
        self.session.mount("http://", again)

    def call(
        self,
        method: str,
        path: str,
        api: str = "compute",
        parameters: Words | None = None,
        body: Document | None = None,
    ) -> Document | None:
        """The answer; None where there is no such thing.

        Raises PreflightError where Google does not answer or refuses this user, CommandFailed where it objects.
        """
        url = _endpoint(api) + path
        try:
            ask: Callable[..., requests.Response] = self.session.request
            answer = ask(method, url, json=body, params=parameters, timeout=SECONDS)
            said: Any = answer.json() if answer.content else {}
        except GoogleAuthError as error:
            raise PreflightError(f"Google does not take the credentials: {error}", credentials.LOGIN) from error
        except requests.RequestException as error:
            hint = f"check the network, and {ENDPOINTS[api][0]} if it is set"
            raise PreflightError(f"Google's API does not answer: {error}", hint) from error
        if answer.status_code == 404:
            return None
        if not answer.ok:
            raise _objection([method, url], api, answer.status_code, said)
        return dict(said)

    def find(self, path: str) -> Document | None:
        """One thing of Compute Engine, or None."""
        return self.call("GET", path)

    def pages(self, path: str, api: str = "compute", parameters: Words | None = None) -> Iterator[Document]:
        """Every page of a list. Raises CommandFailed where there is no such list."""
        page: Document | None = {"nextPageToken": ""}
        while page and "nextPageToken" in page:
            page = self.call("GET", path, api, {**(parameters or {}), "pageToken": page["nextPageToken"]})
            if page is None:
                raise CommandFailed("list what Google has", ["GET", path], "HTTP 404", [])
            yield page

    def items(self, path: str, parameters: Words | None = None) -> list[Document]:
        """Everything of a collection of Compute Engine."""
        return [item for page in self.pages(path, "compute", parameters) for item in page.get("items", [])]

    def everywhere(self, project: str, collection: str, parameters: Words | None = None) -> list[Document]:
        """Everything of a collection in all regions and zones. Raises CommandFailed where one of them does not say."""
        found = list[Document]()
        for page in self.pages(f"projects/{project}/aggregated/{collection}", "compute", parameters):
            for scope, there in page.get("items", {}).items():
                if there.get("warning", {}).get("code") == "UNREACHABLE":
                    raise CommandFailed(f"list {collection}", ["GET", scope], "not reachable now", [])
                found += there.get(collection, [])
        return found

    def finish(self, operation: Document, step: str) -> None:
        """Wait until an operation is done. Raises CommandFailed where it fails or has no end."""
        path, deadline = path_of(operation.get("selfLink", "")), time.monotonic() + OPERATION_SECONDS
        while operation.get("status") != "DONE":
            if time.monotonic() > deadline:
                raise CommandFailed(step, ["GET", path], f"no end within {OPERATION_SECONDS:.0f} s", [])
            time.sleep(LOOK_SECONDS)
            operation = self.find(path) or {"status": "DONE"}  # Google forgets them, long after they are done
        errors = [e for e in operation.get("error", {}).get("errors", []) if e.get("code") != "RESOURCE_NOT_FOUND"]
        if errors:
            raise CommandFailed(step, ["GET", path], errors[0].get("code", "error"), [str(e) for e in errors])


def together(*questions: Callable[[], Answer]) -> list[Answer]:
    """The answers to several questions, asked at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [asked.result() for asked in [pool.submit(question) for question in questions]]


def path_of(link: str) -> str:
    """projects/… of a link: what Terraform, too, takes for the id."""
    return link[link.index("projects/") :] if "projects/" in link else link


def _endpoint(api: str) -> str:
    variable, usual = ENDPOINTS[api]
    return (os.environ.get(variable) or usual).rstrip("/") + "/"


def _objection(argv: list[str], api: str, status: int, said: Any) -> OrchestratorError:
    error = said.get("error", {}) if isinstance(said, dict) else {}
    error = error if isinstance(error, dict) else {"message": str(error)}
    message = error.get("message", "no reason given")
    reasons = {one.get("reason") for one in [*error.get("errors", []), *error.get("details", [])]}
    if reasons & {"accessNotConfigured", "SERVICE_DISABLED"}:
        return PreflightError(f"Google's API is off: {message}", f"`gcloud services enable {api}.googleapis.com`")
    if status == 401:
        return PreflightError(f"Google does not take the credentials: {message}", credentials.LOGIN)
    if status == 403 and not reasons & {"rateLimitExceeded", "quotaExceeded"}:
        return PreflightError(f"Google refuses this to you: {message}", "ask the project's owner for the permission")
    return CommandFailed("ask Google", argv, f"HTTP {status}", [message])
