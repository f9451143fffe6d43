module "contract" {
  source = "../contract"

  name     = var.name
  ssh_user = "orchestrator"
  slots    = var.slots
  nodes = {
    for name, address in local.addresses : name => {
      id              = terraform_data.node[name].id
      role            = name == local.names[0] ? "head" : "worker"
      private_address = address
      cpus            = var.local.cpus
      gpus            = 0
    }
  }
}

output "cluster" {
  description = "The cluster, in the type that terraform/contract defines."
  value       = module.contract.cluster
}
