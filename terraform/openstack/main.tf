locals {
  # A killed apply may leave things whose tag was not set yet, and some kinds have none: all are known by name as well.
  prefix   = "orchestrator-${var.name}-${var.id}"
  tags     = ["orchestrator:${var.name}:${var.id}"]
  metadata = { orchestrator = "${var.name}:${var.id}" }

  # Addresses in a network that is made: the head is .10, worker n is .11 + n.
  # They stay when the cluster grows, or a node is replaced or left out.
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
