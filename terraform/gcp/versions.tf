terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "7.46.0" # pinned exactly: see docs/pinned-versions.md
    }
  }
}

# Credentials come only from the environment, so that neither files nor variables contain them.
provider "google" {
  project = var.gcp.project
  region  = var.gcp.region
  zone    = var.gcp.zone
}
