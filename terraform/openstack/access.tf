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

resource "openstack_compute_keypair_v2" "cluster" {
  name       = local.prefix
  public_key = trimspace(var.ssh_public_key)
}

locals {
  # Do not change a byte of user_data: a node whose user_data differs is replaced, and a new head has an empty /shared.
  # So it contains only values whose change must replace the node. The image is included because the provider otherwise
  # rebuilds the server under its old id, with other host keys. A worker's flavor is included because not every cloud
  # can resize servers; the head's is not, because the head is resized to keep /shared.
  user_data = {
    for role, flavor in { head = "any", worker = var.openstack.worker.flavor } :
    role => join("\n", ["#cloud-config", "# image ${var.openstack.image}, flavor ${flavor}", jsonencode(local.access), ""])
  }
  access = {
    ssh_pwauth = false
    users = [{
      name                = "orchestrator"
      shell               = "/bin/bash"
      sudo                = "ALL=(ALL) NOPASSWD:ALL"
      lock_passwd         = true
      ssh_authorized_keys = [trimspace(var.ssh_public_key)]
    }]
  }
}
