resource "openstack_compute_servergroup_v2" "cluster" {
  count = var.openstack.server_group == null ? 0 : 1

  name     = local.prefix
  policies = [var.openstack.server_group]
}

# Volumes of our own rather than of Nova's making: those would have neither name nor mark of whose they are.
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

# One per node, so that one which fails does not keep the others from being made.
# Another flavor resizes the head where it stands, so that it keeps what is on /shared; workers are replaced.
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
    ignore_changes = [scheduler_hints] # they matter when a server is placed; a group made anew must not cost nodes
  }

  # A guest asks for its settings and its packages at once: the way out is there first.
  depends_on = [openstack_networking_router_interface_v2.cluster]
}
