variable "nodes" {
  description = "Every node by name. id changes when the machine is replaced; port is sshd's; cpus may be a fraction."
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
    condition     = alltrue([for node in var.nodes : node.port >= 1 && node.port <= 65535])
    error_message = "A node's port is one of 1 to 65535."
  }

  validation {
    condition     = alltrue([for node in var.nodes : node.cpus > 0 && node.gpus >= 0])
    error_message = "A node has more than 0 cpus and at least 0 gpus."
  }
}
