variable "nodes" {
  description = "Nodes by name. id changes when the machine is replaced; port is sshd's port; cpus may be fractional."
  type = map(object({
    id              = string
    role            = string
    public_address  = optional(string)
    private_address = string
    port            = optional(number, 22)
    cpus            = number
    gpus            = number
  }))

  validation {
    condition     = length([for node in var.nodes : node if node.role == "head"]) == 1
    error_message = "A cluster must have exactly one head."
  }

  validation {
    condition     = alltrue([for node in var.nodes : contains(["head", "worker"], node.role)])
    error_message = "A node's role must be head or worker."
  }

  validation {
    condition     = alltrue([for node in var.nodes : can(cidrnetmask("${node.private_address}/32"))])
    error_message = "A node's private_address must be an IPv4 address, because Horovod's launcher supports no other."
  }

  validation {
    condition     = length(distinct([for node in var.nodes : node.private_address])) == length(var.nodes)
    error_message = "Each node must have its own private_address."
  }

  validation {
    condition     = alltrue([for node in var.nodes : node.port >= 1 && node.port <= 65535])
    error_message = "A node's port must be between 1 and 65535."
  }

  validation {
    condition     = alltrue([for node in var.nodes : node.cpus > 0 && node.gpus >= 0])
    error_message = "A node must have more than 0 cpus and at least 0 gpus."
  }
}
