"""The memory of the stand-in for Google's API: lists, creates, changes and removes items."""

import re
from itertools import count
from typing import Any

from tests.stand_ins.google_stand_in_data import (
    COLLECTIONS,
    HERE,
    LINK,
    NOT_FOUND,
    PROJECT,
    ZONE,
    Answer,
    Item,
    begin,
    quotas,
    refusal,
)

PAGE = 500  # items


class StandIn:
    """Google's items by path, with refusals and failures by a part of the path."""

    def __init__(self) -> None:
        self.numbers, self.requests = count(1000000000000000001), list[str]()
        self.refused: dict[str, Answer] = {}
        self.failing: dict[str, str] = {}  # operations on such a path end with this error code
        self.failed: dict[str, Item] = {}
        self.busy, self.unreachable = 0, ""  # number of answers with status 503; a zone that does not list its items
        self.permissions: list[str] | None = None  # None: every requested permission
        self.accounts: dict[str, Item] = {}
        self.items: dict[str, Item] = {}
        for path, item in begin().items():
            self.put(path, **item)

    def put(self, path: str, **values: Any) -> Item:
        """Add an item."""
        item = {"id": str(next(self.numbers)), "name": path.rpartition("/")[2], "selfLink": LINK + path, **values}
        self.items[path] = item
        return item

    def limit(self, path: str, **values: tuple[int, int]) -> None:
        """Replace quotas of the project or the region: metric=(limit, usage)."""
        others = [q for q in self.items[path]["quotas"] if q["metric"] not in values]
        self.items[path]["quotas"] = others + quotas(values)

    def answer(self, method: str, path: str, words: dict[str, str], body: Item) -> Answer:
        self.requests.append(f"{method} {path}")
        if self.busy:
            self.busy -= 1
            return refusal(503, "The service is currently unavailable.", "backendError")
        for part, reason in self.refused.items():
            if part in path:
                return reason
        api, _, rest = path.lstrip("/").partition("/")
        if api == "cloudresourcemanager":
            requested = body["permissions"]
            return 200, {
                "permissions": [
                    permission for permission in requested if self.permissions is None or permission in self.permissions
                ]
            }
        return self.iam(method, rest, body) if api == "iam" else self.compute(method, rest, words, body)

    def iam(self, method: str, path: str, body: Item) -> Answer:
        path = path.removeprefix("v1/")
        if method == "POST":
            email = f"{body['accountId']}@{PROJECT}.iam.gserviceaccount.com"
            name = f"{HERE}/serviceAccounts/{email}"
            account = {"name": name, "email": email, "projectId": PROJECT, "uniqueId": str(next(self.numbers))}
            self.accounts[name] = account | body["serviceAccount"]
            return 200, self.accounts[name]
        if path.endswith("/serviceAccounts"):
            return 200, {"accounts": list(self.accounts.values())}
        if path not in self.accounts:
            return NOT_FOUND
        return 200, self.accounts.pop(path) if method == "DELETE" else self.accounts[path]

    def compute(self, method: str, path: str, words: dict[str, str], body: Item) -> Answer:
        operation = re.fullmatch(r"(.+)/operations/(.+)", path)
        if operation:
            return 200, self.operation(operation[1], operation[2])
        if method == "GET":
            return self.get(path, words)
        scope = "/".join(path.split("/")[: 3 if "/global/" in path else 4])
        return self.change(method, path, scope, body)

    def change(self, method: str, path: str, scope: str, body: Item) -> Answer:
        above, _, word = path.rpartition("/")
        changes = {"start": {"status": "RUNNING"}, "stop": {"status": "TERMINATED"}}.get(word, body)
        makes = word in COLLECTIONS
        target = path if method != "POST" else f"{path}/{body['name']}" if makes else above
        if target not in self.items and not makes:
            return NOT_FOUND
        if method == "DELETE" and self.users_of(path):
            message = f"{path} is already being used by {self.users_of(path)[0]}"
            return refusal(400, message, "resourceInUseByAnotherResource")
        if not any(part in target for part in self.failing):  # otherwise the operation reports the failure
            if method == "DELETE":
                self.delete(path)
            elif target in self.items:
                self.items[target].update(changes)
            else:
                self.create(target, body)
        return 200, self.operation(scope, f"operation-{next(self.numbers)}", target, pending=True)

    def create(self, path: str, body: Item) -> None:
        item = self.put(path, **{**body, "labelFingerprint": "abc=", "fingerprint": "abc="})
        kind = path.split("/")[-2]
        if kind == "addresses":
            item.update(address="198.51.100.7", status="RESERVED", networkTier="PREMIUM")
        if kind == "instances":
            disk = f"{path.rpartition('/instances/')[0]}/disks/{body['name']}"
            parameters = body["disks"][0]["initializeParams"]
            self.put(
                disk, users=[LINK + path], labels=parameters.get("labels", {}), sizeGb=parameters["diskSizeGb"],
                type=parameters["diskType"], sourceImage=parameters["sourceImage"],
            )  # fmt: skip
            item.update(status="RUNNING", zone=LINK + "/".join(path.split("/")[:4]), cpuPlatform="Intel")
            item["disks"] = [{**body["disks"][0], "source": LINK + disk, "deviceName": "persistent-disk-0", "index": 0}]

    def users_of(self, path: str) -> list[str]:
        """Return the items that refer to this one, which must be removed first."""
        kind = path.split("/")[-2]
        inside = {"networks": ("network",), "subnetworks": ("subnetwork",)}.get(kind, ())
        users = list(self.items[path].get("users", []))
        for other, item in self.items.items():
            references = [item, *item.get("networkInterfaces", [])]
            if any(str(reference.get(key, "")).endswith(path) for reference in references for key in inside):
                users.append(other)
        return users

    def delete(self, path: str) -> None:
        removed = self.items.pop(path)
        for disk in removed.get("disks", []):
            self.items.pop(disk["source"].removeprefix(LINK), None)

    def operation(self, scope: str, name: str, target: str = "", pending: bool = False) -> Item:
        link = f"{LINK}{scope}/operations/{name}"
        item: Item = {"kind": "compute#operation", "name": name, "selfLink": link, "targetLink": LINK + target}
        item |= {"status": "RUNNING" if pending else "DONE", "progress": 0 if pending else 100}
        parts = scope.split("/")
        if parts[-2] in ("zones", "regions"):
            item[parts[-2][:-1]] = LINK + scope
        code = next((code for part, code in self.failing.items() if target and part in target), None)
        if code:
            self.failed[name] = {"errors": [{"code": code, "message": f"{code} on {target}"}]}
        return item | ({"error": self.failed[name]} if name in self.failed and not pending else {})

    def get(self, path: str, words: dict[str, str]) -> Answer:
        family = re.fullmatch(r"(.+/images)/family/(.+)", path)
        if family:
            images = [i for p, i in self.items.items() if p.startswith(family[1]) and i.get("family") == family[2]]
            return (200, images[-1]) if images else NOT_FOUND
        if path in self.items:
            return 200, self.items[path]
        if "/aggregated/" in path:
            return 200, self.aggregated(path.rpartition("/")[2], words)
        if path.rpartition("/")[2] in COLLECTIONS:
            items = [item for other, item in self.items.items() if other.rpartition("/")[0] == path]
            return 200, paged([item for item in items if matches_filter(item, words)], words)
        return NOT_FOUND

    def aggregated(self, collection: str, words: dict[str, str]) -> Item:
        scopes: dict[str, Item] = {f"zones/{ZONE}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        if self.unreachable:
            scopes[f"zones/{self.unreachable}"] = {"warning": {"code": "UNREACHABLE"}}
        for path, item in self.items.items():
            parts = path.split("/")
            if len(parts) == 6 and parts[4] == collection and matches_filter(item, words):
                scopes.setdefault("/".join(parts[2:4]), {}).setdefault(collection, []).append(item)
        return {"items": scopes}


def paged(items: list[Item], words: dict[str, str]) -> Item:
    begin = int(words.get("pageToken") or 0)
    more = {"nextPageToken": str(begin + PAGE)} if begin + PAGE < len(items) else {}
    return {"items": items[begin : begin + PAGE], **more}


def matches_filter(item: Item, words: dict[str, str]) -> bool:
    """Return whether Google's filter accepts an item; implements two forms of its grammar."""
    label = re.fullmatch(r"labels\.(\w+)=(.+)", words.get("filter", ""))
    name = re.fullmatch(r'name eq "(.+)"', words.get("filter", ""))
    if label:
        return bool(item.get("labels", {}).get(label[1]) == label[2])
    return not name or bool(re.fullmatch(name[1], item["name"]))
