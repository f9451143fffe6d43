locals {
  # IPv4 addresses of the nodes in an existing network, which may also assign IPv6 addresses.
  given = {
    for name, port in openstack_networking_port_v2.node :
    name => [for address in port.all_fixed_ips : address if can(cidrnetmask("${address}/32"))]
  }
}

module "contract" {
  source = "../contract"

  name     = var.name
  ssh_user = "orchestrator"
  slots    = var.slots
  storage  = "nfs"
  trainer  = "container"
  nodes = {
    for name, node in local.nodes : name => {
      id              = openstack_compute_instance_v2.node[name].id
      role            = node.role
      public_address  = name == local.head ? one(openstack_networking_floatingip_v2.head[*].address) : null
      private_address = var.openstack.network == null ? local.addresses[name] : try(local.given[name][0], "none")
      cpus            = node.cpus
      gpus            = node.gpus
    }
  }
}

output "cluster" {
  description = "The cluster, in the type that terraform/contract defines."
  value       = module.contract.cluster
}
