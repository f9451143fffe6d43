# The one output of every provider's root, typed and checked at plan time. A module without resources.

variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "ssh_user" {
  description = "Account on every node that Ansible and the user log in with."
  type        = string
}

variable "jump" {
  description = "Way to every node, where there is no straight one: iap:PROJECT/ZONE, Google's Identity-Aware Proxy."
  type        = string
  default     = null
}

variable "slots" {
  description = "Ranks per node; null: one per GPU, or one."
  type        = number
  default     = null
}

variable "storage" {
  description = "nfs: the head exports /shared to the others; mounted: every node has it already."
  type        = string
  default     = "mounted"

  validation {
    condition     = contains(["nfs", "mounted"], var.storage)
    error_message = "storage is nfs or mounted."
  }
}

variable "trainer" {
  description = "container: nodes are given the trainer's image; installed: the trainer is in the nodes' own image."
  type        = string
  default     = "installed"

  validation {
    condition     = contains(["container", "installed"], var.trainer)
    error_message = "trainer is container or installed."
  }
}
