"""A stand-in for Google's API on loopback: stores resources in memory, and answers like Compute Engine and IAM.

Terraform's real provider can create, read, change and destroy a cluster in it.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.stand_ins.google_stand_in_memory import StandIn


class Handler(BaseHTTPRequestHandler):
    """Pass requests to a StandIn, one at a time."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # without it, every answer waits 40 ms
    one_at_a_time = threading.Lock()

    def __init__(self, stand_in: StandIn, *rest: Any) -> None:
        self.there = stand_in
        super().__init__(*rest)

    def _answer(self) -> None:
        url = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        words = {key: values[0] for key, values in parse_qs(url.query).items()}
        with self.one_at_a_time:
            status, body = self.there.answer(self.command, url.path, words, json.loads(text or b"{}"))
            content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def listening(stand_in: StandIn, patch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Serve Google's API from ``stand_in``, and set the variables of Terraform's provider to its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, stand_in))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    patch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"{address}/compute/")
    patch.setenv("GOOGLE_IAM_BETA_CUSTOM_ENDPOINT", f"{address}/iam/v1/")
    patch.setenv("GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT", f"{address}/cloudresourcemanager/")
    patch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token-of-the-stand-in")
    patch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
