terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "3.4.0" # exactly: see docs/pinned-versions.md
    }
  }
}

# Credentials stay where they are: in the user's clouds.yaml, or in OS_* of the environment.
provider "openstack" {
  cloud = var.openstack.cloud
}
