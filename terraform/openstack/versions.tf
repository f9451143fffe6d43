terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "3.4.0" # pinned exactly: see docs/pinned-versions.md
    }
  }
}

# Credentials come only from the user's clouds.yaml or from OS_* variables. Where the orchestrator and this provider read
# clouds.yaml differently, the values are those of the orchestrator.
provider "openstack" {
  cloud         = var.openstack.cloud
  region        = var.openstack.region
  endpoint_type = var.openstack.interface
  cacert_file   = var.openstack.cacert
  max_retries   = 5 # of requests that the cloud limits (HTTP 429)
}
