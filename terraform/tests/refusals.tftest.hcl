# What the variables refuse. Every run is a plan that fails for one variable.

mock_provider "google" {
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
  project      = "my-project"
  region       = "europe-west1"
  schema_file  = "examples/small/schema.yaml"
  zone         = "europe-west1-b"
  oracle_zones = ["europe-west1-b"]
  network      = "default"
  subnetwork   = "default"
}

run "a_name_with_capitals" {
  command = plan
  variables {
    name = "Percolator"
  }
  expect_failures = [var.name]
}

run "a_name_that_is_too_long_for_service_accounts" {
  command = plan
  variables {
    name = "percolator-for-the-department"
  }
  expect_failures = [var.name]
}

run "a_key_elsewhere" {
  command = plan
  variables {
    kms_key = "projects/k/locations/us-central1/keyRings/r/cryptoKeys/data"
  }
  expect_failures = [var.kms_key]
}

run "a_zone_elsewhere" {
  command = plan
  variables {
    zone = "us-central1-a"
  }
  expect_failures = [var.zone]
}

run "no_nodes" {
  command = plan
  variables {
    min_nodes = 0
  }
  expect_failures = [var.min_nodes]
}

run "fewer_nodes_at_most_than_at_least" {
  command = plan
  variables {
    min_nodes = 3
    max_nodes = 2
  }
  expect_failures = [var.max_nodes]
}

run "more_nodes_than_bigtable_scales_to" {
  command = plan
  variables {
    min_nodes = 1
    max_nodes = 11
  }
  expect_failures = [var.max_nodes]
}

run "a_cpu_target_out_of_range" {
  command = plan
  variables {
    cpu_target = 95
  }
  expect_failures = [var.cpu_target]
}

run "another_store" {
  command = plan
  variables {
    oracle_store = "etcd"
  }
  expect_failures = [var.oracle_store]
}

run "processing_units_out_of_step" {
  command = plan
  variables {
    spanner_processing_units = 150
  }
  expect_failures = [var.spanner_processing_units]
}

run "no_zone_for_the_oracle" {
  command = plan
  variables {
    oracle_zones = []
  }
  expect_failures = [var.oracle_zones]
}

run "a_zone_twice" {
  command = plan
  variables {
    oracle_zones = ["europe-west1-b", "europe-west1-b"]
  }
  expect_failures = [var.oracle_zones]
}

run "the_oracle_elsewhere" {
  command = plan
  variables {
    oracle_zones = ["europe-west1-b", "us-central1-a"]
  }
  expect_failures = [var.oracle_zones]
}

run "an_image_by_tag" {
  command = plan
  variables {
    oracle_image = "europe-west1-docker.pkg.dev/p/r/percolator:latest"
  }
  expect_failures = [var.oracle_image]
}

run "plaintext" {
  command = plan
  variables {
    oracle_security = "none"
  }
  expect_failures = [var.oracle_security]
}

run "a_shared_core" {
  command = plan
  variables {
    oracle_machine_type = "e2-small"
  }
  expect_failures = [var.oracle_machine_type]
}

run "everybody_on_the_network" {
  command = plan
  variables {
    client_tags = []
  }
  expect_failures = [var.client_tags]
}

run "the_whole_world" {
  command = plan
  variables {
    reader_members = { allUsers = ["*"] }
  }
  expect_failures = [var.schema_members]
}

run "everybody_as_schema" {
  command = plan
  variables {
    schema_members = ["allAuthenticatedUsers"]
  }
  expect_failures = [var.schema_members]
}

run "every_address" {
  command = plan
  variables {
    client_ranges = ["0.0.0.0/0"]
  }
  expect_failures = [var.client_ranges]
}

run "an_address_that_is_none" {
  command = plan
  variables {
    client_ranges = ["10.0.0"]
  }
  expect_failures = [var.client_ranges]
}

run "a_member_in_place_of_an_address" {
  command = plan
  variables {
    client_service_accounts = ["serviceAccount:a@example.com"]
  }
  expect_failures = [var.client_service_accounts]
}

run "less_storage_than_autoscaling_takes" {
  command = plan
  variables {
    storage_target = 1000
  }
  expect_failures = [var.storage_target]
}

run "backups_for_a_day" {
  command = plan
  variables {
    backup_days = 1
  }
  expect_failures = [var.backup_days]
}

run "half_a_second" {
  command = plan
  variables {
    iam_wait = 0.5
  }
  expect_failures = [var.iam_wait]
}

run "another_edition" {
  command = plan
  variables {
    edition = "STANDARD"
  }
  expect_failures = [var.edition]
}

run "agents_that_lack_one" {
  command = plan
  variables {
    service_agents = { "spanner.googleapis.com" = "serviceAccount:a@example.com" }
  }
  expect_failures = [var.service_agents]
}
