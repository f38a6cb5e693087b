# terraform -chdir=terraform/modules/service_agents test

mock_provider "google-beta" {}

run "of_bigtable_and_spanner" {
  variables { project = "my-project" }
  assert {
    condition     = { for api, member in output.members : api => member } == { for api in ["bigtableadmin.googleapis.com", "spanner.googleapis.com"] : api => google_project_service_identity.agent[api].member }
    error_message = "service agents"
  }
  assert {
    condition     = alltrue([for a in google_project_service_identity.agent : a.project == "my-project"])
    error_message = "agents of another project"
  }
}
