# Who may connect: the networks of allow_from to sshd, and the nodes to each other.

resource "openstack_networking_secgroup_v2" "cluster" {
  name                 = local.prefix
  description          = "ssh from the caller, everything among the nodes"
  delete_default_rules = true # those below are all there are
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
  for_each = toset([for network in var.allow_from : cidrsubnet(network, 0, 0)]) # less the host's bits

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
  # Every byte counts: a node whose user_data differs is replaced, and were it the head, what is on /shared is gone. So
  # nothing stands here but what a node is made of. The image does because the provider would rebuild a server under its
  # old id where only the image differs, with other host keys. A worker's flavor does because not every cloud can resize
  # a server; the head is resized all the same, for what it holds.
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
