# terraform -chdir=terraform/modules/service_agents test

mock_provider "google-beta" {
  mock_data "google_project" {
    defaults = { number = "1" }
  }
}

run "of_all_that_a_key_is_granted_to" {
  variables { project = "my-project" }
  assert {
    condition = { for api, member in output.members : api => member } == merge(
      { for api in ["artifactregistry.googleapis.com", "bigtableadmin.googleapis.com", "secretmanager.googleapis.com", "spanner.googleapis.com"] : api => google_project_service_identity.agent[api].member },
      { "compute.googleapis.com" = "serviceAccount:service-1@compute-system.iam.gserviceaccount.com" },
    )
    error_message = "service agents"
  }
  assert {
    condition     = alltrue([for a in google_project_service_identity.agent : a.project == "my-project"])
    error_message = "agents of another project"
  }
}
