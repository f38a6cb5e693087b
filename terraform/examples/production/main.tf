# What a service that holds its users' data begins with: an own key, two servers of the oracle in
# two zones on Spanner, mutual TLS, identities apart, alerts that reach somebody, backups,
# everything protected against deletion.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.38, < 9.0"
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
  source   = "../../modules/services"
  project  = var.project
  api_wait = var.api_wait
  further  = ["artifactregistry.googleapis.com", "cloudkms.googleapis.com"]
}

# The key is granted to them, so they have to exist.
module "service_agents" {
  source     = "../../modules/service_agents"
  project    = var.project
  depends_on = [module.services]
}

resource "google_kms_crypto_key_iam_member" "repository" {
  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = module.service_agents.members["artifactregistry.googleapis.com"]
}

# A grant is not known everywhere at once.
resource "terraform_data" "repository_key_granted" {
  triggers_replace = google_kms_crypto_key_iam_member.repository.id

  provisioner "local-exec" {
    command = "sleep ${var.iam_wait}"
  }
}

resource "google_artifact_registry_repository" "percolator" {
  project       = var.project
  location      = var.region
  repository_id = "percolator"
  format        = "DOCKER"
  description   = "Images of the oracle and of workers"
  kms_key_name  = var.kms_key
  depends_on    = [module.services, terraform_data.repository_key_granted]

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

  replicas       = var.replicas
  failed_over_to = var.failed_over_to

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
