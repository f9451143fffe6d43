module "contract" {
  source = "../contract"

  name     = var.name
  ssh_user = "orchestrator"
  slots    = var.slots
  jump     = var.gcp.iap ? "iap:${var.gcp.project}/${var.gcp.zone}" : null
  storage  = "nfs"
  trainer  = "container"
  nodes = {
    for name, node in local.nodes : name => {
      id              = google_compute_instance.node[name].instance_id
      role            = node.role
      public_address  = node.role == "head" ? one(google_compute_address.head[*].address) : null
      private_address = node.address
      cpus            = node.shape.cpus
      gpus            = node.shape.gpus
    }
  }
}

output "cluster" {
  description = "The cluster, in the type that terraform/contract defines."
  value       = module.contract.cluster
}
