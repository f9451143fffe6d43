# This module has no resources: it defines the only output of each provider's root module and validates it at plan time.

variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "ssh_user" {
  description = "Account on every node with which Ansible and the user log in."
  type        = string
}

variable "jump" {
  description = "Tunnel to the nodes, iap:PROJECT/ZONE for Google's Identity-Aware Proxy; null: no tunnel."
  type        = string
  default     = null
}

variable "slots" {
  description = "Ranks per node; null means one per GPU, or one on nodes without GPUs."
  type        = number
  default     = null
}

variable "storage" {
  description = "nfs: the head exports /shared to the workers; mounted: every node already has /shared."
  type        = string
  default     = "mounted"

  validation {
    condition     = contains(["nfs", "mounted"], var.storage)
    error_message = "storage must be nfs or mounted."
  }
}

variable "trainer" {
  description = "container: the deploy installs the trainer image; installed: the nodes' image contains the trainer."
  type        = string
  default     = "installed"

  validation {
    condition     = contains(["container", "installed"], var.trainer)
    error_message = "trainer must be container or installed."
  }
}
