"""A stand-in for Docker Engine on loopback, which answers the tests' calls from recordings in this file."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TRUNCATED = {"stand-in": "truncated"}  # as a document: the connection ends in the middle of the answer
STALLS = {"stand-in": "stalls"}  # as a document: no answer for longer than a test waits
STALL_SECONDS = 5.0
Answers = dict[str, tuple[int, list[Any]]]  # end of a request's path -> status, JSON documents
USUAL: Answers = {
    "/version": (200, [{"ApiVersion": "1.41", "Version": "20.10.0"}]),
    "/info": (200, [{"NCPU": 4, "MemTotal": 8 << 30, "DockerRootDir": "/nowhere"}]),
    "/images/json": (200, [[]]),
    "/images/create": (404, [{"message": "manifest unknown"}]),
    "/networks": (200, [[]]),
    "/volumes": (200, [{"Volumes": None}]),
    "/containers/json": (200, [[]]),
}


class Handler(BaseHTTPRequestHandler):
    """Answer one connection after another from a table."""

    protocol_version = "HTTP/1.1"

    def __init__(self, answers: Answers, removed: list[str], *rest: Any) -> None:
        self.answers, self.removed = answers, removed
        super().__init__(*rest)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer()

    def do_DELETE(self) -> None:
        self.removed.append(self.path.partition("?")[0].rpartition("/")[2])
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        status_of_unknown = 404 if "/images/" in path else 500
        unknown = (status_of_unknown, [{"message": f"this stand-in knows no {path}"}])
        status, documents = next((self.answers[end] for end in self.answers if path.endswith(end)), unknown)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status >= 400:
            self._at_once(json.dumps(documents[0]).encode())
        else:
            self._in_pieces(documents)

    def _at_once(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _in_pieces(self, documents: list[Any]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for document in documents:
            if document is TRUNCATED:
                self.close_connection = True
                return
            if document is STALLS:
                time.sleep(STALL_SECONDS)
            content = json.dumps(document).encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def listening(answers: Answers, removed: list[str] | None = None, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the DOCKER_HOST of an engine that gives ``answers`` and the default ones, and adds what it ``removed``."""
    handler = partial(Handler, {**USUAL, **answers}, [] if removed is None else removed)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"tcp://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
