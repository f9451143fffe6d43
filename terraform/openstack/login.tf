# The account orchestrator, its key, and the cloud-init configuration that creates it.

resource "openstack_compute_keypair_v2" "cluster" {
  name       = local.prefix
  public_key = trimspace(var.ssh_public_key)
}

locals {
  # Do not change a byte of user_data: a node whose user_data differs is replaced, and a new head has an empty /shared.
  # So it contains only values whose change must replace the node. The image is included because the provider otherwise
  # rebuilds the server under its old id, with other host keys. A worker's flavor is included because not every cloud
  # can resize servers; the head's is not, because the head is resized to keep /shared.
  user_data = {
    for role, flavor in { head = "any", worker = var.openstack.worker.flavor } :
    role => join("\n", ["#cloud-config", "# image ${var.openstack.image}, flavor ${flavor}", jsonencode(local.access), ""])
  }
  access = {
    ssh_pwauth = false
    users = [{
      name                = "orchestrator"
      shell               = "/bin/bash"
      sudo                = "ALL=(ALL) NOPASSWD:ALL"
      lock_passwd         = true
      ssh_authorized_keys = [trimspace(var.ssh_public_key)]
    }]
  }
}
