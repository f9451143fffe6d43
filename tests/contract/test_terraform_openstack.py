"""Declarations of terraform/openstack, read without Terraform, so on every machine."""

import ast
import inspect

from orchestrator.providers import openstack
from tests.contract.providers import attributes, resources

# Resources without tags in Neutron and Nova: two are found by name, the others belong to a tagged resource.
UNTAGGED = {
    "openstack_compute_keypair_v2.cluster",
    "openstack_compute_servergroup_v2.cluster",
    "openstack_networking_router_interface_v2.cluster",
    *(f"openstack_networking_secgroup_rule_v2.{rule}" for rule in ("out", "among", "ssh")),
}


def test_provider_writes_the_declared_attributes() -> None:
    nodes = ast.walk(ast.parse(inspect.getsource(openstack)))
    assert set(attributes("openstack")) - {node.value for node in nodes if isinstance(node, ast.Constant)} == set()


def test_every_resource_is_marked_with_its_owner() -> None:
    marks, all_of_them = {"${local.tags}", "${local.metadata}"}, resources("openstack")
    marked = {key for key, body in all_of_them.items() if marks & {body.get("tags"), body.get("metadata")}}
    assert set(all_of_them) - marked == UNTAGGED
    names = {body.get("name") or body.get("description") for body in all_of_them.values()} - {None}
    assert names == {"${local.prefix}", "${local.prefix}-head", "${each.value.part}", "${each.key}"}


def test_only_sshd_is_reachable_from_outside() -> None:
    rules = [body for key, body in resources("openstack").items() if "secgroup_rule" in key]
    outside = [rule for rule in rules if rule["direction"] == "ingress" and "remote_group_id" not in rule]
    assert [(rule["protocol"], rule["port_range_min"], rule["port_range_max"]) for rule in outside] == [("tcp", 22, 22)]
    assert outside[0]["remote_ip_prefix"] == "${each.key}"
    assert "var.allow_from" in outside[0]["for_each"]
    assert resources("openstack")["openstack_networking_secgroup_v2.cluster"]["delete_default_rules"] is True


def test_node_resources_are_named_node() -> None:
    """The control side finds the node of a port, volume or server that could not be created by this name."""
    each = {key for key, body in resources("openstack").items() if "local.nodes" in str(body.get("for_each"))}
    assert {key.split(".")[1] for key in each} == {"node"}
    assert len(each) == 3
