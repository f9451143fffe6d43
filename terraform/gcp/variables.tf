variable "name" {
  description = "Name of the cluster; nodes are named <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which each resource has as a label or in its description."
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
  description = "Networks that may connect to the nodes by ssh; empty: only the nodes themselves. Ignored with gcp.iap."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for network in var.allow_from : can(cidrnetmask(network))])
    error_message = "allow_from must contain IPv4 networks such as 198.51.100.7/32."
  }
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

variable "gcp" {
  description = "Google Compute Engine settings; names are resolved, disk_size is in GiB."
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
    error_message = "gcp.subnet must be an IPv4 network such as 10.77.0.0/24."
  }

  validation {
    condition     = startswith(var.gcp.zone, "${var.gcp.region}-")
    error_message = "gcp.zone must be a zone of gcp.region."
  }
}
