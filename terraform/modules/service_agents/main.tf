# The service agents to which a key is granted. In a new project they do not exist before somebody
# asks for them. Only the provider google-beta can ask, so this is a module of its own: who has no
# key needs neither. That of Compute Engine comes with its API.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 6.50, < 9.0"
    }
  }
}

variable "project" {
  description = "Project of the instances. Its APIs are enabled already."
  type        = string
}

resource "google_project_service_identity" "agent" {
  for_each = toset(["artifactregistry.googleapis.com", "bigtableadmin.googleapis.com", "secretmanager.googleapis.com", "spanner.googleapis.com"])
  provider = google-beta

  project = var.project
  service = each.key
}

data "google_project" "this" {
  provider   = google-beta
  project_id = var.project
}

output "members" {
  description = "The service agents as members, by their API: for service_agents of the main module, and for the key of a repository of images."
  value = merge(
    { for api, agent in google_project_service_identity.agent : api => agent.member },
    { "compute.googleapis.com" = "serviceAccount:service-${data.google_project.this.number}@compute-system.iam.gserviceaccount.com" },
  )
}
