variable "name" {
  description = "Name of the cluster; nodes are <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which every resource carries as a label or in its description."
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
  description = "Networks that may ssh into the nodes; none: only the nodes themselves. Of no account with gcp.iap."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for network in var.allow_from : can(cidrnetmask(network))])
    error_message = "allow_from has IPv4 networks such as 198.51.100.7/32."
  }
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

variable "gcp" {
  description = "What only Google Compute Engine has; names are resolved already, disk_size is in GiB."
  type = object({
    project   = string
    region    = string
    zone      = string
    image     = string
    head      = object({ machine_type = string, cpus = number, gpus = number, accelerator = string })
    worker    = object({ machine_type = string, cpus = number, gpus = number, accelerator = string })
    disk_size = number
    disk_type = string
    spot      = bool
    compact   = bool
    subnet    = string
    iap       = bool
  })

  validation {
    condition     = can(cidrnetmask(var.gcp.subnet))
    error_message = "gcp.subnet is an IPv4 network such as 10.77.0.0/24."
  }

  validation {
    condition     = startswith(var.gcp.zone, "${var.gcp.region}-")
    error_message = "gcp.zone lies in gcp.region."
  }
}
