locals {
  labels  = "--label orchestrator.cluster=${var.name} --label orchestrator.id=${var.id}"
  grafana = "/etc/orchestrator/grafana.d" # the same path as for Grafana on the head itself

  confinement = join(" ", [
    "--userns host --cap-drop MKNOD --cap-drop NET_RAW",
    "--cgroupns host --cgroup-parent ${var.local.cgroup_parent}",
    join(" ", formatlist("--volume %s", var.local.cgroup_volumes)),
  ])

  # The head has .10, worker n has .11 + n, so that addresses stay when the cluster grows, or a node is replaced or left
  # out.
  names = concat(["${var.name}-head"], [for n in range(var.nodes - 1) : "${var.name}-worker-${n}"])
  addresses = {
    for n, name in local.names : name => cidrhost(var.local.subnet, 10 + n) if !contains(var.without, name)
  }
}

# Each command removes leftovers of an interrupted apply by name and label before it creates its resource. The network's
# commands also remove nodes, because a network with nodes that are missing in Terraform's state cannot be removed.

resource "terraform_data" "network" {
  input = {
    name   = "${var.name}-network"
    filter = "--filter name=^${var.name}-network$ --filter label=orchestrator.id=${var.id}"
    nodes  = "--filter label=orchestrator.id=${var.id}"
  }
  triggers_replace = [var.local.subnet]

  provisioner "local-exec" {
    command = <<-EOT
      docker ps --all --quiet ${self.input.nodes} | xargs -r docker rm --force --volumes
      docker network ls --quiet ${self.input.filter} | xargs -r docker network rm
      docker network create --subnet ${var.local.subnet} ${local.labels} \
        --opt com.docker.network.driver.mtu=${var.local.mtu} ${self.input.name}
    EOT
  }

  provisioner "local-exec" {
    when    = destroy
    command = <<-EOT
      docker ps --all --quiet ${self.input.nodes} | xargs -r docker rm --force --volumes
      docker network ls --quiet ${self.input.filter} | xargs -r docker network rm
    EOT
  }
}

# Shared storage: each node mounts this volume at /shared, where nodes of a cloud mount NFS.
resource "terraform_data" "shared" {
  input = {
    name   = "${var.name}-shared"
    filter = "--filter name=^${var.name}-shared$ --filter label=orchestrator.id=${var.id}"
  }

  provisioner "local-exec" {
    command = <<-EOT
      docker volume create ${local.labels} ${self.input.name}
      test -n "$(docker volume ls --quiet ${self.input.filter})" || {
        echo "volume ${self.input.name} exists and does not belong to this cluster:" \
          "choose another cluster name, or remove it with \`docker volume rm ${self.input.name}\`" >&2
        exit 1
      }
    EOT
  }

  provisioner "local-exec" {
    when    = destroy
    command = "docker volume ls --quiet ${self.input.filter} | xargs -r docker volume rm"
  }
}

# A node gets fewer privileges than Docker's defaults, because its root account must have no access to this machine.
# systemd needs a writable /run and its own control groups. Without MKNOD the node cannot open disks of the machine,
# without NET_RAW it cannot take over the address of another container. Docker's seccomp and AppArmor profiles apply.
# --userns host: if the engine maps user ids, a mapped root could not write the control groups.
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
# The head gets more memory for Prometheus, which monitors all nodes.
resource "terraform_data" "limits" {
  triggers_replace = [
    { for name, node in terraform_data.node : name => node.id },
    var.local.cpus, var.local.quota, var.local.memory, var.local.head_memory,
  ]

  provisioner "local-exec" {
    command = <<-EOT
      docker update --cpus ${var.local.quota} --cpu-shares ${max(2, floor(1024 * var.local.cpus))} \
        --memory ${var.local.memory}m --memory-swap ${var.local.memory}m ${join(" ", keys(terraform_data.node))}
      docker update --memory ${var.local.head_memory}m --memory-swap ${var.local.head_memory}m ${var.name}-head
    EOT
  }
}

# Grafana's data and database. A new password requires a new volume, because the database contains the password.
resource "terraform_data" "grafana_data" {
  count = var.local.grafana.image == "" ? 0 : 1

  input = {
    name   = "${var.name}-grafana-data"
    filter = "--filter name=^${var.name}-grafana-data$ --filter label=orchestrator.id=${var.id}"
  }
  triggers_replace = [var.local.grafana.password]

  provisioner "local-exec" {
    command = "docker volume create ${local.labels} ${self.input.name}"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "docker volume ls --quiet ${self.input.filter} | xargs -r docker volume rm"
  }
}

# Grafana shares the head's network namespace to listen on the head's loopback address and to reach Prometheus there.
resource "terraform_data" "grafana" {
  count = var.local.grafana.image == "" ? 0 : 1

  input = {
    name   = "${var.name}-grafana"
    filter = "--filter name=^${var.name}-grafana$ --filter label=orchestrator.id=${var.id}"
  }
  triggers_replace = [
    terraform_data.node[local.names[0]].id, terraform_data.grafana_data[0].id,
    var.local.grafana.image, var.local.grafana.digest,
  ]

  provisioner "local-exec" {
    command = <<-EOT
      set -e
      docker ps --all --quiet ${self.input.filter} | xargs -r docker rm --force --volumes
      docker create --name ${self.input.name} ${local.labels} --restart unless-stopped \
        --network container:${local.names[0]} --user 472:0 --read-only --tmpfs /tmp \
        --cap-drop ALL --security-opt no-new-privileges --pids-limit 512 --memory 512m --cpu-shares 256 \
        --log-opt max-size=5m --volume ${terraform_data.grafana_data[0].output.name}:${local.grafana} \
        --env GF_PATHS_CONFIG=${local.grafana}/grafana.ini --env GF_PATHS_PROVISIONING=${local.grafana}/provisioning \
        --env GF_PATHS_DATA=${local.grafana}/data --env GF_PATHS_LOGS=${local.grafana}/data/log \
        --env GF_PATHS_PLUGINS=${local.grafana}/data/plugins ${var.local.grafana.image}
      docker cp - ${self.input.name}:${local.grafana} < "$FILES"
      docker start ${self.input.name}
    EOT
    environment = {
      FILES = var.local.grafana.files
    }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "docker ps --all --quiet ${self.input.filter} | xargs -r docker rm --force --volumes"
  }
}
