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


def test_worker_leaves_the_earlier_shared_before_the_entry_of_another_head_is_written() -> None:
    """Else a deploy that is interrupted in between leaves the mount of a removed head, also in the container."""
    client, unmount = (
        list(tasks(yaml.safe_load((ROLES / "nfs" / "tasks" / f"{name}.yml").read_text())))
        for name in ("client", "unmount")
    )
    check, leave, write, start = client[1:]
    assert check["ansible.builtin.blockinfile"] == write["ansible.builtin.blockinfile"]
    assert (check["check_mode"], "check_mode" in write) == (True, False)
    assert (leave["ansible.builtin.include_tasks"], leave["when"]) == ("unmount.yml", "nfs_fstab is changed")
    assert start["ansible.builtin.systemd_service"]["state"] == "started"
    units = [task["ansible.builtin.systemd_service"] for task in unmount[1:]]
    states = [(unit["name"], unit["state"]) for unit in units]
    assert states == [("trainer", "stopped"), ("shared.automount", "stopped")]


def test_no_task_expects_a_group_named_like_the_account() -> None:
    """On a host, an account that exists may have another primary group, such as `users`."""
    texts = {path: path.read_text() for path in ROLES.glob("*/tasks/*.yml")}
    assert not [path for path, text in texts.items() if 'group: "{{ ansible_user }}"' in text]


def test_teardown_releases_the_driver_of_hosts_whose_gpus_are_not_used_any_more() -> None:
    """With `gpu.driver: none` after a deploy with another driver, hosts have no GPUs in the inventory."""
    plays = yaml.safe_load((ROLES.parent / "remove.yml").read_text())
    hosts = [
        play["hosts"]
        for play in plays
        for task in play["tasks"]
        if task["ansible.builtin.include_role"]["name"] == "nvidia"
    ]
    assert hosts == ["all"]


def test_policy_for_services_is_saved_before_packages_are_installed() -> None:
    """Only the play of operating_system comes before; record_checksums removes the copy at the end of the deploy."""
    plays = yaml.safe_load((ROLES.parent / "site.yml").read_text())
    roles = [role for play in plays for role in play.get("roles", [])]
    with_policy = {path.parts[-3] for path in ROLES.glob("*/tasks/*.yml") if "policy_rc_d" in path.read_text()}
    assert with_policy == {"exporters", "grafana", "prometheus"}
    assert all(roles.index("operating_system") < roles.index(role) for role in with_policy)
    record = (ROLES / "current_configuration" / "templates" / "record_checksums.sh.j2").read_text()
    assert record.splitlines()[-1].startswith('rm -f "$(dirname "$record")/policy-rc.d"')


def test_guest_driver_whose_name_has_spaces_is_one_argument() -> None:
    content = yaml.safe_load((ROLES / "nvidia" / "tasks" / "install_guest_driver.yml").read_text())
    (install,) = (task for task in tasks(content) if task["name"] == "Build and install the guest driver")
    installer = "/shared/.orchestrator/{{ gpu_vgpu_installer | basename }}"
    assert install["ansible.builtin.command"] == {"argv": ["sh", installer, "--silent", "--dkms"]}
