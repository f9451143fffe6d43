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
