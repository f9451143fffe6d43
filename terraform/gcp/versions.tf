terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "7.46.0" # exactly: see docs/pinned-versions.md
    }
  }
}

# Credentials come from the environment alone: nothing of them stands here or in the variables.
provider "google" {
  project = var.gcp.project
  region  = var.gcp.region
  zone    = var.gcp.zone
}
