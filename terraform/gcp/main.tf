locals {
  # Resources that support labels have these; all others have the tag in their description. Both are set by the call
  # that creates the resource, so that resources of an interrupted apply can be found.
  labels = {
    orchestrator_cluster = var.name
    orchestrator_id      = var.id
  }
  tag    = "orchestrator:${var.name}:${var.id}"
  prefix = "orchestrator-${var.name}-${var.id}"

  # These images boot with UEFI and are signed. For other images the default of Google applies.
  signed = can(regex("/projects/(debian-cloud|ubuntu-os-cloud)/global/images/", var.gcp.image))

  # The head has .10, worker n has .11 + n, so that addresses stay when the cluster grows or a node is replaced.
  names = concat(["${var.name}-head"], [for n in range(var.nodes - 1) : "${var.name}-worker-${n}"])
  nodes = {
    for n, name in local.names : name => {
      role    = n == 0 ? "head" : "worker"
      address = cidrhost(var.gcp.subnet, 10 + n)
      shape   = n == 0 ? var.gcp.head : var.gcp.worker
    } if !contains(var.without, name)
  }
}
