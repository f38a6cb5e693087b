# The APIs that a new project has to have before anything is made in it. A destroy leaves them on:
# others may use them.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 9.0"
    }
  }
}

variable "project" {
  description = "Project whose APIs are enabled."
  type        = string
}

variable "further" {
  description = "Further APIs: artifactregistry.googleapis.com for a repository of images, cloudkms.googleapis.com for a key in the same project."
  type        = list(string)
  default     = []
}

variable "api_wait" {
  description = "Seconds until an API that was just enabled is known everywhere: until then Google refuses calls of it. The machine that applies needs a command sleep."
  type        = number
  default     = 60
}

locals {
  needed = [
    "bigtable.googleapis.com",             # data
    "bigtableadmin.googleapis.com",        # instance, tables, app profiles
    "cloudquotas.googleapis.com",          # the check of max_nodes
    "cloudresourcemanager.googleapis.com", # grants on the project
    "cloudtrace.googleapis.com",           # traces of workers and oracle
    "compute.googleapis.com",              # the oracle's servers
    "iam.googleapis.com",                  # service accounts, roles
    "iamcredentials.googleapis.com",       # acting as the service account schema
    "logging.googleapis.com",              # logs of workers and oracle
    "monitoring.googleapis.com",           # alerts
    "secretmanager.googleapis.com",        # certificates, with oracle_security = "mtls"
    "spanner.googleapis.com",              # the oracle's record, with oracle_store = "spanner"
  ]
}

resource "google_project_service" "needed" {
  for_each = toset(concat(local.needed, var.further))

  project            = var.project
  service            = each.key
  disable_on_destroy = false
}

# Nothing says when an API is known everywhere, so this waits, again when the list grows. Whoever
# depends on this module waits with it.
resource "terraform_data" "ready" {
  triggers_replace = sort([for s in google_project_service.needed : s.id])

  provisioner "local-exec" {
    command = "sleep ${var.api_wait}"
  }
}

output "services" {
  description = "The APIs that are enabled."
  value       = sort([for s in google_project_service.needed : s.service])
  depends_on  = [terraform_data.ready]
}
