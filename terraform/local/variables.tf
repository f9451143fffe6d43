variable "name" {
  description = "Name of the cluster; nodes are named <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which each resource has as a label."
  type        = string
}

variable "nodes" {
  description = "Number of nodes, including the head."
  type        = number

  validation {
    condition     = var.nodes >= 1 && floor(var.nodes) == var.nodes
    error_message = "nodes must be an integer of at least 1."
  }
}

variable "slots" {
  description = "Ranks per node; null means one per GPU, or one on nodes without GPUs."
  type        = number
  default     = null
}

variable "ssh_public_key" {
  description = "Public key that may log in as the ssh user, in the format of authorized_keys."
  type        = string
}

variable "allow_from" {
  description = "Networks that may connect by ssh. Ignored, because only this machine reaches its containers."
  type        = list(string)
  default     = []
}

variable "without" {
  description = "Names of workers to leave out because they could not be created; the other nodes keep their addresses."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.without : !endswith(name, "-head")])
    error_message = "without must not contain the head."
  }
}

variable "local" {
  description = <<-EOT
    Settings specific to containers on this machine. Per node: cpus is its share of the machine in cores, quota the
    maximum number of cores, memory its memory in MiB, head_memory the memory of the head in MiB. For all nodes:
    cgroup_parent is the parent of their control groups, cgroup_volumes are the mounts that they need to write these;
    engine (id, machine) is the Docker Engine that has them, which only orchestrator reads.
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
    engine         = map(string)
    grafana = object({
      image    = string # "" means no Grafana
      files    = string # archive of Grafana's files on this machine
      digest   = string # digest of these files
      password = string # changes with the password, but does not reveal it
    })
  })

  validation {
    condition     = can(cidrnetmask(var.local.subnet))
    error_message = "local.subnet must be an IPv4 network such as 10.201.0.0/24."
  }
}
