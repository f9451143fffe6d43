# The cluster gets its own network, unless openstack.network is set. No MTU is set, because Neutron knows the MTU of its
# network and sends it to the nodes by DHCP.

resource "openstack_networking_network_v2" "cluster" {
  count = var.openstack.network == null ? 1 : 0

  name = local.prefix
  tags = local.tags
}

resource "openstack_networking_subnet_v2" "cluster" {
  count = length(openstack_networking_network_v2.cluster)

  name            = local.prefix
  network_id      = openstack_networking_network_v2.cluster[0].id
  cidr            = var.openstack.subnet
  ip_version      = 4
  dns_nameservers = var.openstack.dns
  tags            = local.tags

  # Reserved for ports of Neutron (DHCP, metadata), so that they do not take the addresses of nodes.
  allocation_pool {
    start = cidrhost(var.openstack.subnet, 2)
    end   = cidrhost(var.openstack.subnet, 9)
  }

  # Another address range would replace the subnet. Neutron does not remove a subnet in use, so the apply would fail
  # half-way.
  lifecycle {
    ignore_changes = [cidr, allocation_pool]

    postcondition {
      condition     = self.cidr == var.openstack.subnet
      error_message = "The nodes are in ${self.cidr}: run `orchestrator teardown` before you change openstack.subnet."
    }
  }
}

resource "openstack_networking_router_v2" "cluster" {
  count = length(openstack_networking_network_v2.cluster)

  name                = local.prefix
  external_network_id = var.openstack.external_network
  tags                = local.tags
}

resource "openstack_networking_router_interface_v2" "cluster" {
  count = length(openstack_networking_network_v2.cluster)

  router_id = openstack_networking_router_v2.cluster[0].id
  subnet_id = openstack_networking_subnet_v2.cluster[0].id
}

resource "openstack_networking_port_v2" "node" {
  for_each = local.nodes

  name               = each.value.part
  network_id         = coalesce(var.openstack.network, one(openstack_networking_network_v2.cluster[*].id))
  security_group_ids = [openstack_networking_secgroup_v2.cluster.id]
  tags               = local.tags

  dynamic "fixed_ip" {
    for_each = openstack_networking_subnet_v2.cluster

    content {
      subnet_id  = fixed_ip.value.id
      ip_address = local.addresses[each.key]
    }
  }
}

# A floating IP has no name; its description identifies the cluster until the tag is set by a second call.
resource "openstack_networking_floatingip_v2" "head" {
  count = var.openstack.floating_ip ? 1 : 0

  description = "${local.prefix}-head"
  pool        = var.openstack.external_network_name
  port_id     = openstack_networking_port_v2.node[local.head].id
  tags        = local.tags

  depends_on = [openstack_networking_router_interface_v2.cluster]
}
