"""REST client with deadlines, and with errors that name their remedy."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.lazy_imports import LazyModule
from orchestrator.providers.gcp.api import credentials

if TYPE_CHECKING:
    import requests
    from google.auth import exceptions as auth_errors
    from google.auth.transport import requests as transport
    from requests import adapters
    from urllib3 import util
else:
    requests, adapters, util = LazyModule("requests"), LazyModule("requests.adapters"), LazyModule("urllib3.util")
    auth_errors, transport = LazyModule("google.auth.exceptions"), LazyModule("google.auth.transport.requests")

ENDPOINTS = {  # by API: the variable that overrides it, and the default
    "compute": ("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "https://compute.googleapis.com/compute/v1/"),
    "iam": ("GOOGLE_IAM_BETA_CUSTOM_ENDPOINT", "https://iam.googleapis.com/v1/"),
    "cloudresourcemanager": (
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
        "https://cloudresourcemanager.googleapis.com/v1/",
    ),
}
SECONDS: Any = (10, 60)  # to connect, and then between two parts of the answer
OPERATION_SECONDS, LOOK_SECONDS = 600.0, 1.0
AT_ONCE = 8  # concurrent requests
BACKOFF = 0.5  # seconds before the second of five attempts, doubled before each further one
BUSY = (429, 500, 502, 503, 504)

Document = dict[str, Any]
Words = Mapping[str, str]
Answer = TypeVar("Answer")


class Google:
    """Client with the user's credentials. ``project`` is the one in the environment or the credentials, if any."""

    def __init__(self) -> None:
        """Find the credentials. Raise PreflightError if there are none."""
        credential, self.project = credentials.find()
        self.session = transport.AuthorizedSession(credential)  # type: ignore[no-untyped-call]
        again = adapters.HTTPAdapter(
            pool_maxsize=AT_ONCE,
            max_retries=util.Retry(total=4, backoff_factor=BACKOFF, status_forcelist=BUSY, raise_on_status=False),
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
        """Send a request.

        Args:
            method: HTTP method.
            path: Path below the API's endpoint.
            api: Key of ENDPOINTS.
            parameters: Parameters of the query.
            body: JSON body.

        Returns:
            The answer, or None for HTTP 404.

        Raises:
            PreflightError: Google does not answer or refuses this user.
            CommandFailed: Google refuses the request for another reason.
        """
        url = _endpoint(api) + path
        try:
            ask: Callable[..., requests.Response] = self.session.request
            answer = ask(method, url, json=body, params=parameters, timeout=SECONDS)
            document: Any = answer.json() if answer.content else {}
        except auth_errors.GoogleAuthError as error:
            raise PreflightError(f"Google does not take the credentials: {error}", credentials.LOGIN) from error
        except requests.RequestException as error:
            hint = f"check the network, and {ENDPOINTS[api][0]} if it is set"
            raise PreflightError(f"Google's API does not answer: {error}", hint) from error
        if answer.status_code == 404:
            return None
        if not answer.ok:
            raise _objection([method, url], api, answer.status_code, document)
        return dict(document)

    def find(self, path: str) -> Document | None:
        """Return an object of Compute Engine, or None if it does not exist."""
        return self.call("GET", path)

    def pages(self, path: str, api: str = "compute", parameters: Words | None = None) -> Iterator[Document]:
        """Yield every page of a list.

        Args:
            path: Path below the API's endpoint.
            api: Key of ENDPOINTS.
            parameters: Parameters of the query.

        Yields:
            The pages.

        Raises:
            CommandFailed: There is no such list.
        """
        page: Document | None = {"nextPageToken": ""}
        while page and "nextPageToken" in page:
            page = self.call("GET", path, api, {**(parameters or {}), "pageToken": page["nextPageToken"]})
            if page is None:
                raise CommandFailed("list what Google has", ["GET", path], "HTTP 404", [])
            yield page

    def items(self, path: str, parameters: Words | None = None) -> list[Document]:
        """Return all items of a collection of Compute Engine."""
        return [item for page in self.pages(path, "compute", parameters) for item in page.get("items", [])]

    def everywhere(self, project: str, collection: str, parameters: Words | None = None) -> list[Document]:
        """Return all items of a collection in all regions and zones.

        Args:
            project: Name of the project.
            collection: Name of the collection, such as instances.
            parameters: Parameters of the query.

        Returns:
            The items.

        Raises:
            CommandFailed: A region or zone does not answer.
        """
        documents = list[Document]()
        for page in self.pages(f"projects/{project}/aggregated/{collection}", "compute", parameters):
            for scope, content in page.get("items", {}).items():
                if content.get("warning", {}).get("code") == "UNREACHABLE":
                    raise CommandFailed(f"list {collection}", ["GET", scope], "not reachable now", [])
                documents += content.get(collection, [])
        return documents

    def finish(self, operation: Document, step: str) -> None:
        """Wait until an operation is done. Raise CommandFailed if it fails or does not end in time."""
        path, deadline = path_of(operation.get("selfLink", "")), time.monotonic() + OPERATION_SECONDS
        while operation.get("status") != "DONE":
            if time.monotonic() > deadline:
                raise CommandFailed(step, ["GET", path], f"no end within {OPERATION_SECONDS:.0f} s", [])
            time.sleep(LOOK_SECONDS)
            operation = self.find(path) or {"status": "DONE"}  # Google deletes operations long after they are done
        errors = [e for e in operation.get("error", {}).get("errors", []) if e.get("code") != "RESOURCE_NOT_FOUND"]
        if errors:
            raise CommandFailed(step, ["GET", path], errors[0].get("code", "error"), [str(e) for e in errors])


def together(*questions: Callable[[], Answer]) -> list[Answer]:
    """Run several requests in parallel and return their answers."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [future.result() for future in [pool.submit(question) for question in questions]]


def path_of(link: str) -> str:
    """Return the path of a link from projects/ on. Terraform uses it as id, too."""
    return link[link.index("projects/") :] if "projects/" in link else link


def _endpoint(api: str) -> str:
    variable, usual = ENDPOINTS[api]
    return (os.environ.get(variable) or usual).rstrip("/") + "/"


def _objection(argv: list[str], api: str, status: int, answer: Any) -> OrchestratorError:
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    error = error if isinstance(error, dict) else {"message": str(error)}
    message = error.get("message", "no reason given")
    reasons = {detail.get("reason") for detail in [*error.get("errors", []), *error.get("details", [])]}
    if reasons & {"accessNotConfigured", "SERVICE_DISABLED"}:
        # With a user's credentials, the API must be on in their quota project, which Google names as the consumer.
        consumers = [detail.get("metadata", {}).get("consumer") for detail in error.get("details", [])]
        project = path_of(next(filter(None, consumers), argv[1])).split("/")[1]
        hint = f"`gcloud services enable {api}.googleapis.com --project {project}`"
        return PreflightError(f"Google's API is off: {message}", hint)
    if status == 401:
        return PreflightError(f"Google does not take the credentials: {message}", credentials.LOGIN)
    if status == 403 and not reasons & {"rateLimitExceeded", "quotaExceeded"}:
        return PreflightError(f"Google refuses permission: {message}", "ask the project's owner for the permission")
    return CommandFailed("ask Google", argv, f"HTTP {status}", [message])
