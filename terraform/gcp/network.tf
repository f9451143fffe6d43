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

  # By default a node has 64 ports, too few to download images and packages in parallel. Google allows dynamic
  # allocation only without endpoint-independent mapping.
  enable_dynamic_port_allocation      = true
  enable_endpoint_independent_mapping = false
  min_ports_per_vm                    = 64
  max_ports_per_vm                    = 4096

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

  # Google refuses to delete an address in use: with this, Terraform deletes it only after it has updated the head.
  lifecycle {
    create_before_destroy = true
  }
}
