locals {
  labels  = "--label orchestrator.cluster=${var.name} --label orchestrator.id=${var.id}"
  grafana = "/etc/orchestrator/grafana.d" # the same path as for Grafana on the head itself

  # The head has .10, worker n has .11 + n, so that addresses stay when the cluster grows, or a node is replaced or left
  # out.
  names = concat(["${var.name}-head"], [for n in range(var.nodes - 1) : "${var.name}-worker-${n}"])
  addresses = {
    for n, name in local.names : name => cidrhost(var.local.subnet, 10 + n) if !contains(var.without, name)
  }
}
