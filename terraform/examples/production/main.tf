# What a service that holds its users' data begins with: an own key, two servers of the oracle in
# two zones on Spanner, mutual TLS, identities apart, alerts that reach somebody, backups,
# everything protected against deletion.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 9.0"
    }
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 6.50, < 9.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

provider "google-beta" {
  project = var.project
  region  = var.region
}

module "services" {
  source  = "../../modules/services"
  project = var.project
  further = ["artifactregistry.googleapis.com", "cloudkms.googleapis.com"]
}

# The key is granted to them, so they have to exist.
module "service_agents" {
  source     = "../../modules/service_agents"
  project    = var.project
  depends_on = [module.services]
}

resource "google_artifact_registry_repository" "percolator" {
  project       = var.project
  location      = var.region
  repository_id = "percolator"
  format        = "DOCKER"
  description   = "Images of the oracle and of workers"
  depends_on    = [module.services]

  docker_config {
    immutable_tags = true
  }
}

resource "google_monitoring_notification_channel" "on_call" {
  project      = var.project
  display_name = "Percolator on call"
  type         = "email"
  labels       = { email_address = var.on_call_email }
  depends_on   = [module.services]
}

module "percolator" {
  source = "../.."

  project             = var.project
  region              = var.region
  name                = "percolator"
  schema_file         = "${path.module}/schema.yaml"
  labels              = { service = "percolator", environment = "production" }
  kms_key             = var.kms_key
  service_agents      = module.service_agents.members
  iam_wait            = var.iam_wait
  deletion_protection = true

  zone       = var.zones[0]
  min_nodes  = 3
  max_nodes  = 30
  cpu_target = 50

  oracle_store            = "spanner"
  oracle_zones            = var.zones
  oracle_image            = var.oracle_image
  oracle_image_repository = { project = var.project, location = var.region, name = google_artifact_registry_repository.percolator.repository_id }
  oracle_security         = "mtls"
  metrics_collector_image = var.metrics_collector_image

  network       = var.network
  subnetwork    = var.subnetwork
  client_tags   = ["percolator-worker"]
  client_ranges = var.client_ranges

  reader_members   = var.reader_members
  operator_members = var.operator_members
  schema_members   = var.schema_members

  notification_channels = [google_monitoring_notification_channel.on_call.name]

  depends_on = [module.services]
}
