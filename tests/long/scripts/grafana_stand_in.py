"""Stand in for Grafana: read its settings and answer the few requests that tests of its container send.

Like Grafana, it reads the password from its settings when it creates its database, and from the database afterwards.
"""

import base64
import configparser
import json
import os
import re
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SETTINGS = configparser.ConfigParser(interpolation=None)
SETTINGS.read(os.environ["GF_PATHS_CONFIG"])
PROVISIONING = Path(os.environ["GF_PATHS_PROVISIONING"])
DATABASE = Path(os.environ["GF_PATHS_DATA"]) / "grafana.db"


def stored_password() -> str:
    if not DATABASE.exists():
        DATABASE.write_text(Path(SETTINGS["security"]["admin_password"][len("$__file{") : -1]).read_text())
    return DATABASE.read_text()


LOGIN = "Basic " + base64.b64encode(f"{SETTINGS['security']['admin_user']}:{stored_password()}".encode()).decode()


def setting(kind: str, key: str) -> str:
    """Read a value from the only file that provisions ``kind``."""
    (file,) = (PROVISIONING / kind).glob("*.yml")
    match = re.search(rf"^ +{key}: (\S+)$", file.read_text(), re.MULTILINE)
    assert match
    return match[1]


class Handler(BaseHTTPRequestHandler):
    """Answer health checks; with a login, list the dashboards and forward queries to Prometheus."""

    def do_GET(self) -> None:
        if self.path == "/api/health":
            return self._answer(200, {"stand-in": True})
        if self.headers["Authorization"] != LOGIN:
            return self._answer(401, {})
        if self.path == "/api/search":
            files = sorted(Path(setting("dashboards", "path")).glob("*.json"))
            return self._answer(200, [json.loads(file.read_text())["uid"] for file in files])
        source = setting("datasources", "url") + self.path.removeprefix("/api/datasources/proxy/uid/prometheus")
        with urllib.request.urlopen(source, timeout=10) as answer:
            self._answer(200, json.load(answer))

    def _answer(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


server = SETTINGS["server"]
ThreadingHTTPServer((server["http_addr"], int(server["http_port"])), Handler).serve_forever()
