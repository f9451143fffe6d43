# The networks of allow_from may connect to sshd; the nodes may connect to each other.

resource "openstack_networking_secgroup_v2" "cluster" {
  name                 = local.prefix
  description          = "ssh from the caller, everything among the nodes"
  delete_default_rules = true # only the rules below apply
  tags                 = local.tags
}

resource "openstack_networking_secgroup_rule_v2" "out" {
  for_each = toset(["IPv4", "IPv6"])

  direction         = "egress"
  ethertype         = each.key
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}

resource "openstack_networking_secgroup_rule_v2" "among" {
  for_each = toset(["IPv4", "IPv6"])

  direction         = "ingress"
  ethertype         = each.key
  remote_group_id   = openstack_networking_secgroup_v2.cluster.id
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}

resource "openstack_networking_secgroup_rule_v2" "ssh" {
  for_each = toset([for network in var.allow_from : cidrsubnet(network, 0, 0)]) # sets host bits to zero

  direction         = "ingress"
  ethertype         = strcontains(each.key, ":") ? "IPv6" : "IPv4"
  protocol          = "tcp"
  port_range_min    = 22
  port_range_max    = 22
  remote_ip_prefix  = each.key
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}
