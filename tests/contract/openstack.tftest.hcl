# Where the network is there already, addresses are what Neutron gave: IPv6 may be among them, and come first.

mock_provider "openstack" {
  mock_resource "openstack_networking_port_v2" {
    defaults = { all_fixed_ips = ["2001:db8::9", "198.51.100.9"] }
  }

  mock_resource "openstack_networking_floatingip_v2" {
    defaults = { address = "203.0.113.9" }
  }
}

run "node_is_known_by_the_ipv4_address_it_was_given" {
  assert {
    condition     = output.cluster.nodes["demo-head"].private_address == "198.51.100.9"
    error_message = "private_address is ${output.cluster.nodes["demo-head"].private_address}"
  }

  assert {
    condition     = output.cluster.nodes["demo-head"].public_address == "203.0.113.9"
    error_message = "public_address is not that of the floating IP"
  }

  assert {
    condition     = output.cluster.nodes["demo-head"].id == openstack_compute_instance_v2.node["demo-head"].id
    error_message = "id is not that of the server"
  }
}
