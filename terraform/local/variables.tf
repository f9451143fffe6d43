variable "name" {
  description = "Name of the cluster; nodes are <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which every resource carries as a label."
  type        = string
}

variable "nodes" {
  description = "Number of machines, the head among them."
  type        = number

  validation {
    condition     = var.nodes >= 1 && floor(var.nodes) == var.nodes
    error_message = "A cluster has at least one node."
  }
}

variable "slots" {
  description = "Ranks per node; null: one per GPU, or one."
  type        = number
  default     = null
}

variable "ssh_public_key" {
  description = "Key that may log in as the ssh user, in the form of authorized_keys."
  type        = string
}

variable "local" {
  description = "What only containers on this machine have: cpus in cores and memory in MiB, both per node."
  type = object({
    image  = string
    subnet = string
    mtu    = number
    cpus   = number
    memory = number
  })

  validation {
    condition     = can(cidrnetmask(var.local.subnet))
    error_message = "local.subnet is an IPv4 network such as 10.201.0.0/24."
  }
}
