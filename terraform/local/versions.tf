# terraform_data is built into Terraform: this root module downloads no provider, so local clusters work offline.
terraform {
  required_version = ">= 1.5"
}
