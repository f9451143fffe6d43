# The firewall rules identify the nodes by this service account. It has no role and the nodes have no scope, so that
# programs on the nodes have no rights in the project. Its id is limited to 30 characters.
resource "google_service_account" "node" {
  account_id   = "orchestrator-${var.id}"
  display_name = local.tag
  description  = local.tag
}

resource "google_compute_resource_policy" "cluster" {
  count = var.gcp.compact ? 1 : 0

  name        = local.prefix
  description = local.tag

  group_placement_policy {
    collocation = "COLLOCATED"
  }

  # Google refuses to delete a policy in use: with this, Terraform deletes it only after it has updated the nodes.
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_instance" "node" {
  for_each = local.nodes

  name              = each.key
  description       = local.tag
  labels            = local.labels
  machine_type      = each.value.shape.machine_type
  resource_policies = google_compute_resource_policy.cluster[*].id

  # A node that was stopped by Google or by the user is started again with its disk.
  desired_status            = "RUNNING"
  allow_stopping_for_update = true

  boot_disk {
    initialize_params {
      image  = var.gcp.image
      size   = var.gcp.disk_size
      type   = var.gcp.disk_type
      labels = local.labels
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.cluster.id
    network_ip = each.value.address

    # Nodes with GPUs exceed 50 Gbit/s only with gVNIC. Other images may lack its driver: they get Google's default.
    nic_type = local.signed && each.value.shape.gpus > 0 ? "GVNIC" : null

    dynamic "access_config" {
      for_each = each.value.role == "head" ? google_compute_address.head : []
      content {
        nat_ip = access_config.value.address
      }
    }
  }

  dynamic "guest_accelerator" {
    for_each = each.value.shape.accelerator == null ? [] : [each.value.shape]
    content {
      type  = guest_accelerator.value.accelerator
      count = guest_accelerator.value.gpus
    }
  }

  # NVIDIA's driver is built on the node, and secure boot rejects unsigned modules.
  dynamic "shielded_instance_config" {
    for_each = local.signed ? [each.value.shape] : []
    content {
      enable_secure_boot          = shielded_instance_config.value.gpus == 0
      enable_vtpm                 = true
      enable_integrity_monitoring = true
    }
  }

  # Google does not support live migration of nodes with GPUs, with compact placement or with the Spot model.
  scheduling {
    provisioning_model          = var.gcp.spot ? "SPOT" : "STANDARD"
    preemptible                 = var.gcp.spot
    automatic_restart           = !var.gcp.spot
    instance_termination_action = var.gcp.spot ? "STOP" : null
    on_host_maintenance         = var.gcp.spot || var.gcp.compact || each.value.shape.gpus > 0 ? "TERMINATE" : "MIGRATE"
  }

  service_account {
    email  = google_service_account.node.email
    scopes = []
  }

  metadata = {
    orchestrator           = "${var.name}:${var.id}"
    enable-oslogin         = "FALSE"
    block-project-ssh-keys = "TRUE"
    ssh-keys               = "orchestrator:${var.ssh_public_key}"
  }

  # A change of the first two would stop or replace nodes of an older version while runs are active. Google adds local
  # SSDs to machine types such as a2-ultragpu and a3; Terraform reads them, and would replace the node at each apply.
  lifecycle {
    ignore_changes = [shielded_instance_config, network_interface[0].nic_type, scratch_disk]
  }
}
