terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "3.4.0" # pinned exactly: see docs/pinned-versions.md
    }
  }
}

# Credentials come only from the user's clouds.yaml or from OS_* variables.
provider "openstack" {
  cloud = var.openstack.cloud
}
