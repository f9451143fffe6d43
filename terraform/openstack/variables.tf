variable "name" {
  description = "Name of the cluster; nodes are <name>-head and <name>-worker-<n>."
  type        = string
}

variable "id" {
  description = "Id of this deployment, which every resource carries in its tag or its name."
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
  description = "Networks that may ssh into the nodes; none: only the nodes themselves."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for network in var.allow_from : can(cidrhost(network, 0))])
    error_message = "allow_from has networks such as 203.0.113.7/32."
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

variable "openstack" {
  description = "What only OpenStack has. image, flavor, network, external_network are ids; volume_size is in GiB."
  type = object({
    cloud                 = string
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
    error_message = "openstack.subnet is an IPv4 network such as 10.77.0.0/24."
  }

  validation {
    condition     = !var.openstack.floating_ip || var.openstack.external_network_name != null
    error_message = "openstack.floating_ip needs openstack.external_network_name, where floating IPs come from."
  }

  validation {
    condition = anytrue([
      !var.openstack.floating_ip, var.openstack.network != null, var.openstack.external_network != null
    ])
    error_message = "openstack.floating_ip needs openstack.external_network, unless there is a network already."
  }

  validation {
    condition = contains(
      ["none", "anti-affinity", "soft-anti-affinity"], coalesce(var.openstack.server_group, "none")
    )
    error_message = "openstack.server_group is null, anti-affinity or soft-anti-affinity."
  }
}
