# The network accepts only connections that these two rules allow. A rule without source ranges would accept all
# addresses, so there is no rule for ssh if allow_from is empty.
resource "google_compute_firewall" "ssh" {
  count = var.gcp.iap || length(var.allow_from) > 0 ? 1 : 0

  name                    = "${local.prefix}-ssh"
  description             = local.tag
  network                 = google_compute_network.cluster.id
  source_ranges           = var.gcp.iap ? ["35.235.240.0/20"] : var.allow_from
  target_service_accounts = [google_service_account.node.email]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}

resource "google_compute_firewall" "nodes" {
  name                    = "${local.prefix}-nodes"
  description             = local.tag
  network                 = google_compute_network.cluster.id
  source_service_accounts = [google_service_account.node.email]
  target_service_accounts = [google_service_account.node.email]

  allow {
    protocol = "all"
  }
}
