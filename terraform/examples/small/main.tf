# The least that runs: one Bigtable node, one server of the oracle with its record in Bigtable, no
# alerts. For trying things out on Google Cloud; when the zone is away, so is everything.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.38, < 9.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

module "services" {
  source   = "../../modules/services"
  project  = var.project
  api_wait = var.api_wait
}

module "percolator" {
  source = "../.."

  project     = var.project
  region      = var.region
  name        = "percolator-small"
  schema_file = "${path.module}/schema.yaml"

  zone      = var.zone
  min_nodes = 1
  max_nodes = 2

  oracle_store    = "bigtable"
  oracle_zones    = [var.zone]
  oracle_image    = var.oracle_image
  oracle_security = "alts"

  network    = var.network
  subnetwork = var.subnetwork

  schema_members = var.schema_members

  alerts              = false
  backup_days         = 0
  deletion_protection = false

  depends_on = [module.services]
}
