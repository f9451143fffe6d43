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

variable "allow_from" {
  description = "Networks that may ssh into the nodes. Of no effect here: only this machine reaches its containers."
  type        = list(string)
  default     = []
}

variable "without" {
  description = "Names of workers to leave out this time: those that could not be made. Addresses of the others stay."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.without : !endswith(name, "-head")])
    error_message = "A cluster is never without its head."
  }
}

variable "local" {
  description = <<-EOT
    What only containers on this machine have, per node: cpus is its share of the machine in cores, quota the cores that
    it may use at most, memory in MiB, head_memory that of the head; and, for all nodes, the control group that they write.
  EOT
  type = object({
    image          = string
    subnet         = string
    mtu            = number
    cpus           = number
    quota          = number
    memory         = number
    head_memory    = number
    cgroup_parent  = string
    cgroup_volumes = list(string)
    grafana = object({
      image    = string # "": no Grafana
      files    = string # archive of its files, on this machine
      digest   = string # of these files
      password = string # changes if the password does, and tells nothing of it
    })
  })

  validation {
    condition     = can(cidrnetmask(var.local.subnet))
    error_message = "local.subnet is an IPv4 network such as 10.201.0.0/24."
  }
}
