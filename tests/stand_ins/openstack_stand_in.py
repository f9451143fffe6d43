"""A stand-in for a small OpenStack on loopback: answers with what a real one said, recorded in tests/data/openstack.

Recorded were Keystone, Nova, Neutron and Glance of a project that has the deployment 1a2b3c4d of a cluster called sdk,
one server of it in ERROR, and look-alikes beside it. Replaced are addresses of services, keys, the token's end; left
out are rules of security groups and what belonged to others. Nothing was recorded of Cinder: VOLUMES has what its API
reference shows.
"""

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

RECORDED = Path(__file__).parents[1] / "data" / "openstack"
SERVICES = ("identity", "compute", "network", "image")
PLACE = "http://stand-in"  # in the recordings; gives way to where this one listens
PASSWORD = "correct horse"  # noqa: S105
REFUSED = {"error": {"code": 401, "message": "The request you have made requires authentication."}}
GONE = {"itemNotFound": {"code": 404, "message": "could not be found."}}
VOLUMES = {
    "/volume/v3": {"version": {"id": "v3.0", "status": "CURRENT", "links": [{"rel": "self", "href": "/volume/v3"}]}},
    "/volume/v3/volumes/detail": {"volumes": []},
    "/volume/v3/types": {"volume_types": [{"id": "t1", "name": "ssd"}, {"id": "t2", "name": "hdd"}]},
    "/volume/v3/limits": {
        "limits": {
            "absolute": {
                "maxTotalVolumes": 10,
                "totalVolumesUsed": 2,
                "maxTotalVolumeGigabytes": 1000,
                "totalGigabytesUsed": 80,
            }
        }
    },
}
# A listing whose path is not that of its things.
DETAILED = {"servers": "servers/detail", "flavors": "flavors/detail", "volumes": "volumes/detail"}


class OpenStack:
    """What the stand-in answers. Tests change ``documents`` (by path), and read ``asked`` (method and path)."""

    def __init__(self) -> None:
        recorded = [json.loads((RECORDED / f"{service}.json").read_text()) for service in SERVICES]
        answers = {path: answer for service in recorded for path, answer in service.items()}
        self.documents: dict[str, Any] = {path: answer["body"] for path, answer in answers.items()}
        self.statuses: dict[str, int] = {path: answer["status"] for path, answer in answers.items()}
        self.refusals: dict[str, list[int]] = {}  # method and path -> statuses to answer with before the usual one
        self.lingering: dict[str, int] = {}  # id -> how often it is still seen, from its removal on
        self.asked: list[str] = []
        self.url = ""

    def listed(self, key: str) -> list[dict[str, Any]]:
        """The things of a listing, such as "servers"; what a test does to them shows."""
        things: list[dict[str, Any]] = next(
            d[key] for p, d in self.documents.items() if key in d and "/quotas/" not in p
        )
        return things

    def add_volumes(self) -> None:
        """Put Cinder into the catalogue."""
        self.documents |= copy.deepcopy(VOLUMES)
        endpoint = {"id": "v", "interface": "public", "region": "RegionOne", "region_id": "RegionOne"}
        service = {"id": "v", "type": "block-storage", "endpoints": [{**endpoint, "url": f"{PLACE}/volume/v3"}]}
        self.documents["/identity/v3/auth/tokens"]["token"]["catalog"].append(service)

    def set_extra_specs(self, name: str, specs: dict[str, str], listed: bool = True) -> str:
        """Give a flavor extra specs; unless ``listed``, they take a request, as before Nova 2.61. Return its path."""
        flavor = next(flavor for flavor in self.listed("flavors") if flavor["name"] == name)
        flavor.pop("extra_specs", None)
        if listed:
            flavor["extra_specs"] = specs
        path = f"/compute/v2.1/flavors/{flavor['id']}/os-extra_specs"
        self.documents[path] = {"extra_specs": specs}
        return path

    def answer(self, method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        path = urlsplit(target).path.rstrip("/")
        self.asked.append(f"{method} {path}")
        if refusals := self.refusals.get(f"{method} {path}"):
            return refusals.pop(0), {"NeutronError": {"type": "InUse", "message": "it is in use", "detail": ""}}
        if path.endswith("/auth/tokens"):
            user = body["auth"]["identity"]["password"]["user"]
            valid = (user["name"], user["password"]) == ("demo", PASSWORD)
            return (201, self.documents[path]) if valid else (401, REFUSED)
        if path.endswith("/remove_router_interface"):
            self._drop("ports", body["port_id"])
            return 200, {"port_id": body["port_id"]}
        if method == "GET" and path in self.documents:
            return self.statuses.get(path, 200), filtered(self.documents[path], dict(parse_qsl(urlsplit(target).query)))
        return self._thing(method, path)

    def _thing(self, method: str, path: str) -> tuple[int, Any]:
        """One of a listing: shown, or deleted at once."""
        state_dir, _, key = path.rpartition("/")
        state_dir, _, collection = state_dir.rpartition("/")
        listing = self.documents.get(f"{state_dir}/{collection}") or self.documents.get(
            f"{state_dir}/{DETAILED.get(collection, '')}", {}
        )
        things = next((value for value in listing.values() if isinstance(value, list)), [])
        thing = next((thing for thing in things if key in identities(thing)), None)
        if thing is None:
            return 404, GONE
        if self.lingering.get(key):
            self.lingering[key] -= 1
        elif method == "DELETE" or key in self.lingering:
            things.remove(thing)
        if method == "DELETE":
            return 204, None
        return 200, thing if "image" in state_dir else {collection.rstrip("s"): thing}

    def _drop(self, collection: str, key: str) -> None:
        things = self.listed(collection)
        things[:] = [thing for thing in things if thing["id"] != key]


def identities(thing: dict[str, Any]) -> set[str]:
    inner = thing.get("keypair", thing)
    return {inner["id"]} if "id" in inner else {inner["name"]}


def filtered(document: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """Of a listing what agrees with the query, as far as its things have such a key."""

    def agrees(thing: Any) -> bool:
        return all(str(thing.get(key, value)) == value for key, value in query.items())

    return {
        key: [thing for thing in value if agrees(thing)] if isinstance(value, list) else value
        for key, value in document.items()
    }


class Handler(BaseHTTPRequestHandler):
    """Speaks for one OpenStack."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet: two would wait for each other

    def __init__(self, openstack: OpenStack, *rest: Any) -> None:
        self.openstack = openstack
        super().__init__(*rest)

    def _answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        status, document = self.openstack.answer(self.command, self.path, body)
        content = b"" if document is None else json.dumps(document).replace(PLACE, self.openstack.url).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 201:
            self.send_header("X-Subject-Token", "a token")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def listening() -> Iterator[OpenStack]:
    """An OpenStack that answers at its ``url``."""
    openstack = OpenStack()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, openstack))
    openstack.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield openstack
    finally:
        server.shutdown()
        server.server_close()
