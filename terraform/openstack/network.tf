# A network of the cluster's own, unless there is one already. No mtu is asked for: Neutron knows what its network
# carries and tells the guests by DHCP.

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

  # What Neutron itself needs addresses for (DHCP, metadata) must not take those of the nodes, which come after.
  allocation_pool {
    start = cidrhost(var.openstack.subnet, 2)
    end   = cidrhost(var.openstack.subnet, 9)
  }

  # Neutron gives a subnet up only after all that is in it: other addresses would take every node down half-way.
  lifecycle {
    ignore_changes = [cidr, allocation_pool]

    postcondition {
      condition     = self.cidr == var.openstack.subnet
      error_message = "The nodes are in ${self.cidr}: tear the cluster down before openstack.subnet changes."
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

# A floating IP has no name: its description tells whose it is before its tag does.
resource "openstack_networking_floatingip_v2" "head" {
  count = var.openstack.floating_ip ? 1 : 0

  description = "${local.prefix}-head"
  pool        = var.openstack.external_network_name
  port_id     = openstack_networking_port_v2.node[local.head].id
  tags        = local.tags

  depends_on = [openstack_networking_router_interface_v2.cluster]
}
