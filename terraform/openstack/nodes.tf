resource "openstack_compute_servergroup_v2" "cluster" {
  count = var.openstack.server_group == null ? 0 : 1

  name     = local.prefix
  policies = [var.openstack.server_group]
}

# Volumes are created here and not by Nova, whose volumes would have neither a name nor the cluster's metadata.
resource "openstack_blockstorage_volume_v3" "node" {
  for_each = { for name, node in local.nodes : name => node if var.openstack.volume_size != null }

  name                 = each.value.part
  size                 = var.openstack.volume_size
  volume_type          = var.openstack.volume_type
  image_id             = var.openstack.image
  enable_online_resize = true
  metadata             = local.metadata

  timeouts {
    create = "15m"
  }
}

# One instance resource per node, so that a node that fails does not prevent the creation of the others. Another flavor
# resizes the head in place, which keeps /shared, and replaces workers.
resource "openstack_compute_instance_v2" "node" {
  for_each = local.nodes

  name              = each.key
  image_id          = var.openstack.volume_size == null ? var.openstack.image : null
  flavor_id         = each.value.flavor
  key_pair          = openstack_compute_keypair_v2.cluster.name
  user_data         = local.user_data[each.value.role]
  config_drive      = var.openstack.config_drive
  availability_zone = var.openstack.availability_zone
  metadata          = local.metadata
  tags              = local.tags

  network {
    port = openstack_networking_port_v2.node[each.key].id
  }

  dynamic "block_device" {
    for_each = [for name, volume in openstack_blockstorage_volume_v3.node : volume.id if name == each.key]

    content {
      uuid                  = block_device.value
      source_type           = "volume"
      destination_type      = "volume"
      boot_index            = 0
      delete_on_termination = false
    }
  }

  dynamic "scheduler_hints" {
    for_each = openstack_compute_servergroup_v2.cluster

    content {
      group = scheduler_hints.value.id
    }
  }

  timeouts {
    create = "15m"
    update = "15m"
    delete = "15m"
  }

  lifecycle {
    ignore_changes = [scheduler_hints] # only used when a server is placed; a new group must not replace nodes
  }

  # The router must exist first, because a booting node immediately requests its metadata and packages.
  depends_on = [openstack_networking_router_interface_v2.cluster]
}
