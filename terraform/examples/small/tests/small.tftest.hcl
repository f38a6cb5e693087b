# terraform -chdir=terraform/examples/small test

mock_provider "google" {
  mock_resource "google_service_account" {
    defaults = {
      email  = "somebody@my-project.iam.gserviceaccount.com"
      member = "serviceAccount:somebody@my-project.iam.gserviceaccount.com"
    }
  }
  mock_resource "google_compute_address" {
    defaults = { address = "10.0.0.2" }
  }
  mock_data "google_cloud_quotas_quota_infos" {
    defaults = {
      quota_infos = [{
        quota_display_name  = "SSD nodes per zone"
        metric_display_name = "SSD nodes"
        dimensions_infos = [
          { applicable_locations = ["europe-west1-c"], details = [{ value = "1" }], dimensions = { zone = "europe-west1-c" } },
          { applicable_locations = ["europe-west1-b", "europe-west1-d"], details = [{ value = "30" }], dimensions = {} },
        ]
      }]
    }
  }
}

variables {
  project  = "my-project"
  api_wait = 0
}

run "first_apply_without_an_image" {
  assert {
    condition     = length(output.oracle_rollout) == 0 && output.environment.PERCOLATOR_TSO_ADDR == "10.0.0.2:7070"
    error_message = "no server yet, but its address"
  }
  assert {
    condition = length(setsubtract([
      "bigtable.googleapis.com", "bigtableadmin.googleapis.com", "cloudresourcemanager.googleapis.com", "compute.googleapis.com", "iam.googleapis.com",
      "iamcredentials.googleapis.com", "logging.googleapis.com", "monitoring.googleapis.com",
    ], module.services.services)) == 0
    error_message = "APIs that a new project lacks: ${join(", ", module.services.services)}"
  }
  # The schema file says which tables there are, here once more in other words than the module's.
  assert {
    condition = toset(output.tables) == toset(concat(["percolator_meta", "percolator_journal"], flatten([
      for t in yamldecode(file("schema.yaml")).tables : concat([t.name], [for i in try(t.indexes, []) : join(".", [t.name, i.name])])
    ])))
    error_message = "tables: ${join(", ", output.tables)}"
  }
}

run "second_apply_with_the_image" {
  variables {
    oracle_image = "europe-west1-docker.pkg.dev/my-project/percolator/percolator@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  }
  assert {
    condition     = length(output.oracle_rollout) == 1
    error_message = "one server"
  }
  assert {
    condition = output.environment == {
      PERCOLATOR_PROJECT                = "my-project"
      PERCOLATOR_INSTANCE               = "percolator-small"
      PERCOLATOR_APP_PROFILE            = "percolator"
      PERCOLATOR_BACKGROUND_APP_PROFILE = "percolator-batch"
      PERCOLATOR_TSO_ADDR               = "10.0.0.2:7070"
      PERCOLATOR_TSO_ALTS               = "true"
    }
    error_message = "environment"
  }
}
