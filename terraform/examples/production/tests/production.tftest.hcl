# terraform -chdir=terraform/examples/production test

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

mock_provider "google-beta" {
  mock_data "google_project" {
    defaults = { number = "1" }
  }
  mock_resource "google_project_service_identity" {
    defaults = { member = "serviceAccount:service-1@gcp-sa-somewhat.iam.gserviceaccount.com" }
  }
}

variables {
  project       = "my-project"
  network       = "projects/my-project/global/networks/main"
  subnetwork    = "projects/my-project/regions/europe-west1/subnetworks/main"
  kms_key       = "projects/my-project/locations/europe-west1/keyRings/percolator/cryptoKeys/data"
  on_call_email = "on-call@example.com"
  iam_wait      = 0
  api_wait      = 0
}

run "first_apply_without_an_image" {
  assert {
    condition     = length(output.oracle_rollout) == 0 && output.image_repository == "europe-west1-docker.pkg.dev/my-project/percolator"
    error_message = "a repository for the image, and no server yet"
  }
  assert {
    condition     = output.spanner_database == "projects/my-project/instances/percolator-tso/databases/oracle"
    error_message = "the oracle's database"
  }
  assert {
    condition     = toset(keys(output.oracle_secrets)) == toset(["ca", "server-cert", "server-key", "client-cert", "client-key"])
    error_message = "secrets for certificates"
  }
  assert {
    condition = toset(output.tables) == toset(concat(["percolator_meta", "percolator_journal"], flatten([
      for t in yamldecode(file("schema.yaml")).tables : concat([t.name], [for i in try(t.indexes, []) : join(".", [t.name, i.name])])
    ])))
    error_message = "tables: ${join(", ", output.tables)}"
  }
  assert {
    condition     = toset(keys(output.service_accounts)) == toset(["worker", "batch", "oracle", "schema"])
    error_message = "identities"
  }
  assert {
    condition = length(setsubtract([
      "artifactregistry.googleapis.com", "cloudkms.googleapis.com", "cloudresourcemanager.googleapis.com", "iam.googleapis.com",
      "iamcredentials.googleapis.com", "spanner.googleapis.com",
    ], module.services.services)) == 0
    error_message = "APIs that a new project lacks: ${join(", ", module.services.services)}"
  }
  assert {
    condition     = toset(keys(module.service_agents.members)) == toset(["artifactregistry.googleapis.com", "bigtableadmin.googleapis.com", "compute.googleapis.com", "secretmanager.googleapis.com", "spanner.googleapis.com"])
    error_message = "a service agent that the key cannot be granted to"
  }
}

run "images_are_encrypted" {
  assert {
    condition     = google_artifact_registry_repository.percolator.kms_key_name == var.kms_key && google_kms_crypto_key_iam_member.repository.member == module.service_agents.members["artifactregistry.googleapis.com"]
    error_message = "images are not encrypted by the key, or their registry cannot use it"
  }
}

run "a_replica" {
  variables { replicas = { c2 = { zone = "europe-north1-a", kms_key = "projects/my-project/locations/europe-north1/keyRings/percolator/cryptoKeys/data" } } }
  assert {
    condition     = keys(module.percolator.clusters) == ["percolator-c1", "percolator-c2"]
    error_message = "clusters"
  }
}

run "second_apply_with_the_image" {
  variables {
    oracle_image            = "europe-west1-docker.pkg.dev/my-project/percolator/percolator@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    metrics_collector_image = "us-docker.pkg.dev/p/r/otelcol-google:1"
  }
  assert {
    condition = length(output.oracle_rollout) == 2 && alltrue([
      for i, z in ["europe-west1-b", "europe-west1-c"] : strcontains(output.oracle_rollout[i], "--zone=${z}") && strcontains(output.oracle_rollout[i], "--instances=percolator-tso-${z}")
    ])
    error_message = "a server in each of two zones"
  }
  assert {
    condition     = output.environment.PERCOLATOR_TSO_SERVER_NAME == "tso.percolator.internal" && length(split(",", output.environment.PERCOLATOR_TSO_ADDR)) == 2
    error_message = "environment"
  }
}

run "one_zone_is_refused" {
  command = plan
  variables { zones = ["europe-west1-b"] }
  expect_failures = [var.zones]
}

run "the_same_zone_twice_is_refused" {
  command = plan
  variables { zones = ["europe-west1-b", "europe-west1-b"] }
  expect_failures = [var.zones]
}

run "a_key_of_another_region_is_refused" {
  command = plan
  variables { kms_key = "projects/my-project/locations/global/keyRings/percolator/cryptoKeys/data" }
  expect_failures = [var.kms_key]
}
