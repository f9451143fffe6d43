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
