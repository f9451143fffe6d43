# The one output of every provider's root, typed and checked at plan time. A module without resources.

variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "ssh_user" {
  description = "Account on every node that Ansible and the user log in with."
  type        = string
}

variable "slots" {
  description = "Ranks per node; null: one per GPU, or one."
  type        = number
  default     = null
}

variable "nodes" {
  description = "Every node by name. id changes when the machine is replaced; cpus may be a fraction."
  type = map(object({
    id              = string
    role            = string
    public_address  = optional(string)
    private_address = string
    cpus            = number
    gpus            = number
  }))

  validation {
    condition     = length([for node in var.nodes : node if node.role == "head"]) == 1
    error_message = "A cluster has exactly one head."
  }

  validation {
    condition     = alltrue([for node in var.nodes : contains(["head", "worker"], node.role)])
    error_message = "A node's role is head or worker."
  }

  validation {
    condition     = alltrue([for node in var.nodes : can(cidrnetmask("${node.private_address}/32"))])
    error_message = "A node's private_address is an IPv4 address: Horovod's launcher takes no other."
  }

  validation {
    condition     = length(distinct([for node in var.nodes : node.private_address])) == length(var.nodes)
    error_message = "Two nodes share one private_address."
  }

  validation {
    condition     = alltrue([for node in var.nodes : node.cpus > 0 && node.gpus >= 0])
    error_message = "A node has more than 0 cpus and at least 0 gpus."
  }
}

output "cluster" {
  description = "What the control side reads: the cluster, with the ranks of every node."
  value = {
    name     = var.name
    ssh_user = var.ssh_user
    nodes = {
      for name, node in var.nodes :
      name => merge(node, { slots = coalesce(var.slots, max(node.gpus, 1)) })
    }
  }
}
