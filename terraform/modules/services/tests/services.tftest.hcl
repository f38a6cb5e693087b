# terraform -chdir=terraform/modules/services test

mock_provider "google" {}

run "they_stay_on_after_a_destroy" {
  variables {
    project = "my-project"
    further = ["cloudkms.googleapis.com"]
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
