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
