# terraform_data is built in: this root needs no provider registry, so a rehearsal works offline.
terraform {
  required_version = ">= 1.5"
}
