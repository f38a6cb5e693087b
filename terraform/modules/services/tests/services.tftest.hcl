# terraform -chdir=terraform/modules/services test

mock_provider "google" {}

run "they_stay_on_after_a_destroy" {
  variables {
    project  = "my-project"
    further  = ["cloudkms.googleapis.com"]
    api_wait = 0
  }
  assert {
    condition     = toset(terraform_data.ready.triggers_replace) == toset([for s in google_project_service.needed : s.id])
    error_message = "nothing waits for the APIs"
  }
  assert {
    condition     = alltrue([for s in google_project_service.needed : !s.disable_on_destroy && s.project == "my-project"])
    error_message = "a destroy would turn services off that others use"
  }
  assert {
    condition     = contains(output.services, "cloudkms.googleapis.com") && contains(output.services, "bigtableadmin.googleapis.com")
    error_message = "services: ${join(", ", output.services)}"
  }
}
