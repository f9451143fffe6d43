locals {
  # Whatever takes labels has these; all else has the tag in its description, where it is written by the same call
  # that makes the thing: an interrupted apply leaves nothing that could not be found.
  labels = {
    orchestrator_cluster = var.name
    orchestrator_id      = var.id
  }
  tag    = "orchestrator:${var.name}:${var.id}"
  prefix = "orchestrator-${var.name}-${var.id}"

  # These images boot by UEFI and are signed. Of others Google takes what they are capable of.
  signed = can(regex("/projects/(debian-cloud|ubuntu-os-cloud)/global/images/", var.gcp.image))

  # The head is .10, worker n is .11 + n: addresses stay when the cluster grows or a node is replaced.
  names = concat(["${var.name}-head"], [for n in range(var.nodes - 1) : "${var.name}-worker-${n}"])
  nodes = {
    for n, name in local.names : name => {
      role    = n == 0 ? "head" : "worker"
      address = cidrhost(var.gcp.subnet, 10 + n)
      shape   = n == 0 ? var.gcp.head : var.gcp.worker
    } if !contains(var.without, name)
  }
}
