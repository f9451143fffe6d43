"""A stand-in for a small OpenStack on loopback, which answers from a real one's recordings in tests/data/openstack.

The recordings are of Keystone, Nova, Neutron and Glance of a project with deployment 1a2b3c4d of cluster sdk, one of
whose servers is in ERROR, and resources of others with similar names. Addresses of services, keys and the token's
expiry are replaced; rules of security groups and resources of other users are removed. Cinder was not recorded:
VOLUMES follows its API reference.
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
RECORDED_URL = "http://stand-in"  # in the recordings; replaced by this server's address
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
# Listings whose path differs from that of their items.
DETAILED = {"servers": "servers/detail", "flavors": "flavors/detail", "volumes": "volumes/detail"}


class OpenStack:
    """Answers of the stand-in. Tests change ``documents`` (by path), and read ``requests`` (method and path)."""

    def __init__(self) -> None:
        recorded = [json.loads((RECORDED / f"{service}.json").read_text()) for service in SERVICES]
        answers = {path: answer for service in recorded for path, answer in service.items()}
        self.documents: dict[str, Any] = {path: answer["body"] for path, answer in answers.items()}
        self.statuses: dict[str, int] = {path: answer["status"] for path, answer in answers.items()}
        self.refusals: dict[str, list[int]] = {}  # method and path -> statuses to answer with before the usual one
        self.lingering: dict[str, int] = {}  # id -> how many requests still see it after its removal
        self.requests: list[str] = []
        self.url = ""

    def listed(self, key: str) -> list[dict[str, Any]]:
        """Return the items of a listing, such as "servers"; changes to them affect later answers."""
        items: list[dict[str, Any]] = next(
            d[key] for p, d in self.documents.items() if key in d and "/quotas/" not in p
        )
        return items

    def add_volumes(self) -> None:
        """Add Cinder to the catalogue."""
        self.documents |= copy.deepcopy(VOLUMES)
        endpoint = {"id": "v", "interface": "public", "region": "RegionOne", "region_id": "RegionOne"}
        service = {
            "id": "v",
            "type": "block-storage",
            "endpoints": [{**endpoint, "url": f"{RECORDED_URL}/volume/v3"}],
        }
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
        self.requests.append(f"{method} {path}")
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
        """Show or delete an item of a listing."""
        parent, _, key = path.rpartition("/")
        parent, _, collection = parent.rpartition("/")
        listing = self.documents.get(f"{parent}/{collection}") or self.documents.get(
            f"{parent}/{DETAILED.get(collection, '')}", {}
        )
        items = next((value for value in listing.values() if isinstance(value, list)), [])
        item = next((item for item in items if key in identities(item)), None)
        if item is None:
            return 404, GONE
        if self.lingering.get(key):
            self.lingering[key] -= 1
        elif method == "DELETE" or key in self.lingering:
            items.remove(item)
        if method == "DELETE":
            return 204, None
        return 200, item if "image" in parent else {collection.rstrip("s"): item}

    def _drop(self, collection: str, key: str) -> None:
        items = self.listed(collection)
        items[:] = [item for item in items if item["id"] != key]


def identities(item: dict[str, Any]) -> set[str]:
    inner = item.get("keypair", item)
    return {inner["id"]} if "id" in inner else {inner["name"]}


def filtered(document: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """Keep the items of a listing that match the query, as far as they have its keys, without community images."""

    def agrees(item: Any) -> bool:
        listed = not isinstance(item, dict) or item.get("visibility") != "community"
        return listed and all(str(item.get(key, value)) == value for key, value in query.items())

    return {
        key: [item for item in value if agrees(item)] if isinstance(value, list) else value
        for key, value in document.items()
    }


class Handler(BaseHTTPRequestHandler):
    """Answer for one OpenStack."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # send an answer as one packet: two would wait for each other

    def __init__(self, openstack: OpenStack, *rest: Any) -> None:
        self.openstack = openstack
        super().__init__(*rest)

    def _answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        status, document = self.openstack.answer(self.command, self.path, body)
        content = b"" if document is None else json.dumps(document).replace(RECORDED_URL, self.openstack.url).encode()
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
    """Yield an OpenStack that answers at its ``url``."""
    openstack = OpenStack()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, openstack))
    openstack.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield openstack
    finally:
        server.shutdown()
        server.server_close()
