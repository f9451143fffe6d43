output "cluster" {
  description = "The cluster as the orchestrator reads it, with the number of ranks (slots) of each node."
  value = merge({ for key, way in { jump = var.jump } : key => way if way != null }, {
    name     = var.name
    ssh_user = var.ssh_user
    storage  = var.storage
    trainer  = var.trainer
    nodes = {
      for name, node in var.nodes :
      name => merge(node, { slots = coalesce(var.slots, max(node.gpus, 1)) })
    }
  })
}
