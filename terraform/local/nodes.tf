# A node gets fewer privileges than Docker's defaults, because its root account must have no access to this machine.
# systemd needs a writable /run and its own control groups. Without MKNOD the node cannot open disks of the machine,
# without NET_RAW it cannot take over the address of another container. Docker's seccomp and AppArmor profiles apply.
# --userns host: if the engine maps user ids, a mapped root could not write the control groups.
locals {
  confinement = join(" ", [
    "--userns host --cap-drop MKNOD --cap-drop NET_RAW",
    "--cgroupns host --cgroup-parent ${var.local.cgroup_parent}",
    join(" ", formatlist("--volume %s", var.local.cgroup_volumes)),
  ])
  workers = join(" ", [for name in keys(local.addresses) : name if name != "${var.name}-head"])
}

resource "terraform_data" "node" {
  for_each = local.addresses

  input = {
    name   = each.key
    filter = "--filter name=^${each.key}$ --filter label=orchestrator.id=${var.id}"
  }
  triggers_replace = [
    each.value, var.local.image, var.ssh_public_key, local.confinement,
    terraform_data.network.id, terraform_data.shared.id,
  ]

  provisioner "local-exec" {
    command = <<-EOT
      docker ps --all --quiet ${self.input.filter} | xargs -r docker rm --force --volumes
      docker run --detach --name ${self.input.name} --hostname ${self.input.name} ${local.labels} \
        --network ${terraform_data.network.output.name} --ip ${each.value} --restart unless-stopped \
        ${local.confinement} \
        --tmpfs /run --tmpfs /run/lock --shm-size 1g \
        --volume ${terraform_data.shared.output.name}:/shared \
        --env AUTHORIZED_KEY="$AUTHORIZED_KEY" \
        ${var.local.image}
    EOT
    environment = {
      AUTHORIZED_KEY = var.ssh_public_key
    }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "docker ps --all --quiet ${self.input.filter} | xargs -r docker rm --force --volumes"
  }
}

# Limits are separate from the nodes because they change with the number of nodes, and that requires no new container.
# One command sets them for all nodes, because Docker's client takes as long to start as to set all limits.
# The head gets more memory for Prometheus, which monitors all nodes, and never less in between: a notebook would be
# killed.
resource "terraform_data" "limits" {
  triggers_replace = [
    { for name, node in terraform_data.node : name => node.id },
    var.local.cpus, var.local.quota, var.local.memory, var.local.head_memory,
  ]

  provisioner "local-exec" {
    command = <<-EOT
      set -e
      docker update --cpus ${var.local.quota} --cpu-shares ${max(2, floor(1024 * var.local.cpus))} \
        --memory ${var.local.head_memory}m --memory-swap ${var.local.head_memory}m ${join(" ", keys(terraform_data.node))}
      ${local.workers == "" ? "" : "docker update --memory ${var.local.memory}m --memory-swap ${var.local.memory}m ${local.workers}"}
    EOT
  }
}
