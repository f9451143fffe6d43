variable "name" {
  description = "Name of the cluster; nodes are named <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which each resource has in its tag or its name."
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
  description = "Networks that may connect to the nodes by ssh; if empty, only the nodes themselves may."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for network in var.allow_from : can(cidrhost(network, 0))])
    error_message = "allow_from must contain networks such as 203.0.113.7/32."
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

variable "openstack" {
  description = "OpenStack settings. image, flavor, network and external_network are ids; volume_size is in GiB."
  type = object({
    cloud                 = string
    project               = optional(string) # recorded: other credentials are refused
    region                = optional(string)
    interface             = optional(string)
    cacert                = optional(string)
    image                 = string
    head                  = object({ flavor = string, cpus = number, gpus = number })
    worker                = object({ flavor = string, cpus = number, gpus = number })
    volume_size           = number
    volume_type           = string
    network               = string
    subnet                = string
    external_network      = string
    external_network_name = string
    floating_ip           = bool
    dns                   = list(string)
    availability_zone     = string
    server_group          = string
    config_drive          = bool
  })

  validation {
    condition     = can(cidrnetmask(var.openstack.subnet))
    error_message = "openstack.subnet must be an IPv4 network such as 10.77.0.0/24."
  }

  validation {
    condition     = !var.openstack.floating_ip || var.openstack.external_network_name != null
    error_message = "openstack.floating_ip requires openstack.external_network_name, which provides floating IPs."
  }

  validation {
    condition = anytrue([
      !var.openstack.floating_ip, var.openstack.network != null, var.openstack.external_network != null
    ])
    error_message = "openstack.floating_ip requires openstack.external_network, unless openstack.network is set."
  }

  validation {
    condition = contains(
      ["none", "anti-affinity", "soft-anti-affinity"], coalesce(var.openstack.server_group, "none")
    )
    error_message = "openstack.server_group must be null, anti-affinity or soft-anti-affinity."
  }
}
