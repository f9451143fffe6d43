locals {
  # Resources are found by tag or name: a killed apply may leave resources without a tag, and some kinds support none.
  prefix   = "orchestrator-${var.name}-${var.id}"
  tags     = ["orchestrator:${var.name}:${var.id}"]
  metadata = { orchestrator = "${var.name}:${var.id}" }

  # Addresses in a network that is created: the head has .10, worker n has .11 + n, so that addresses stay when the
  # cluster grows, or a node is replaced or left out.
  head      = "${var.name}-head"
  names     = concat([local.head], [for n in range(var.nodes - 1) : "${var.name}-worker-${n}"])
  addresses = { for n, name in local.names : name => cidrhost(var.openstack.subnet, 10 + n) }

  nodes = {
    for name in local.names : name => merge(
      name == local.head ? var.openstack.head : var.openstack.worker,
      { role = name == local.head ? "head" : "worker", part = "${local.prefix}-${trimprefix(name, "${var.name}-")}" },
    ) if !contains(var.without, name)
  }
}
