"""Tasks of the roles, read as YAML."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from orchestrator import packaged_files

ROLES = packaged_files.directory("ansible") / "roles"


def tasks(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks in a file of tasks or handlers, those in blocks too."""
    for task in content if isinstance(content, list) else []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part))


REQUESTS = [
    pytest.param(task["ansible.builtin.uri"], id=task["name"])
    for path in sorted(ROLES.glob("*/*/*.yml"))
    for task in tasks(yaml.safe_load(path.read_text()))
    if "ansible.builtin.uri" in task
]


@pytest.mark.parametrize("request_to", REQUESTS)
def test_request_to_the_node_itself_uses_no_proxy(request_to: dict[str, Any]) -> None:
    """Ubuntu's sudo reads /etc/environment, where http_proxy may be without no_proxy. One request has a password."""
    assert request_to["url"].startswith("http://127.0.0.1:")
    assert request_to["use_proxy"] is False


def test_requests_are_found() -> None:
    assert len(REQUESTS) == 2


def test_another_mount_of_shared_stops_the_container_with_the_earlier_one() -> None:
    """Else a deploy that is interrupted before it restarts the container leaves it with /shared of a removed head."""
    handlers = list(tasks(yaml.safe_load((ROLES / "nfs" / "handlers" / "main.yml").read_text())))
    assert {handler["listen"] for handler in handlers} == {"Mount the shared directory"}
    units = [handler["ansible.builtin.systemd_service"] for handler in handlers[1:]]
    states = [(unit["name"], unit["state"]) for unit in units]
    assert states == [("trainer", "stopped"), ("shared.automount", "restarted")]


def test_no_task_expects_a_group_named_like_the_account() -> None:
    """On a host, an account that exists may have another primary group, such as `users`."""
    texts = {path: path.read_text() for path in ROLES.glob("*/tasks/*.yml")}
    assert not [path for path, text in texts.items() if 'group: "{{ ansible_user }}"' in text]
