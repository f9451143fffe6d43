resource "google_compute_network" "cluster" {
  name                    = local.prefix
  description             = local.tag
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "cluster" {
  name          = local.prefix
  description   = local.tag
  network       = google_compute_network.cluster.id
  ip_cidr_range = var.gcp.subnet
}

# Nodes without an external address reach package mirrors through Cloud NAT.
resource "google_compute_router" "cluster" {
  name        = local.prefix
  description = local.tag
  network     = google_compute_network.cluster.id
}

resource "google_compute_router_nat" "cluster" {
  name                               = local.prefix
  router                             = google_compute_router.cluster.name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"

  subnetwork {
    name                    = google_compute_subnetwork.cluster.id
    source_ip_ranges_to_nat = ["ALL_IP_RANGES"]
  }
}

# With Identity-Aware Proxy no node of the cluster has an external address.
resource "google_compute_address" "head" {
  count = var.gcp.iap ? 0 : 1

  name        = "${local.prefix}-head"
  description = local.tag
  labels      = local.labels
}
