# terraform -chdir=terraform/modules/clusters test: it needs no provider.

variables {
  name  = "percolator"
  first = { zone = "europe-west1-b", min_nodes = 3, max_nodes = 30 }
}

run "one_cluster" {
  command = plan
  assert {
    condition     = keys(output.clusters) == ["percolator-c1"] && output.serving == "percolator-c1"
    error_message = "not the one cluster"
  }
}

run "a_replica" {
  command = plan
  variables {
    replicas = { c2 = { zone = "europe-north1-a", max_nodes = 6 } }
  }
  assert {
    condition     = { for name, c in output.clusters : name => "${c.zone} ${c.min_nodes} ${c.max_nodes}" } == { percolator-c1 = "europe-west1-b 3 30", percolator-c2 = "europe-north1-a 3 6" }
    error_message = "clusters"
  }
  assert {
    condition     = output.serving == "percolator-c1"
    error_message = "a replica must never take transactions while the first cluster does"
  }
}

run "a_failover" {
  command = plan
  variables {
    replicas       = { c2 = { zone = "europe-north1-a" }, c3 = { zone = "europe-west4-a" } }
    failed_over_to = "c2"
  }
  assert {
    condition     = keys(output.clusters) == ["percolator-c2", "percolator-c3"] && output.serving == "percolator-c2"
    error_message = "the survivor is not kept, or the lost cluster is made again"
  }
}

run "a_failover_to_nothing" {
  command = plan
  variables {
    failed_over_to = "c2"
  }
  expect_failures = [output.clusters]
}

run "the_first_cluster_as_a_replica" {
  command = plan
  variables {
    replicas = { c1 = { zone = "europe-north1-a" } }
  }
  expect_failures = [output.clusters]
}

run "a_long_name" {
  command = plan
  variables {
    replicas = { finland = { zone = "europe-north1-a" } }
  }
  expect_failures = [output.clusters]
}

run "a_zone_twice" {
  command = plan
  variables {
    replicas = { c2 = { zone = "europe-west1-b" } }
  }
  expect_failures = [output.clusters]
}

run "too_few_nodes_for_its_most" {
  command = plan
  variables {
    replicas = { c2 = { zone = "europe-north1-a", min_nodes = 1 } }
  }
  expect_failures = [output.clusters]
}

run "a_replica_without_a_key" {
  command = plan
  variables {
    first    = { zone = "europe-west1-b", min_nodes = 3, max_nodes = 30, kms_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data" }
    replicas = { c2 = { zone = "europe-north1-a" } }
  }
  expect_failures = [output.clusters]
}

run "a_replica_with_the_key_of_another_region" {
  command = plan
  variables {
    first    = { zone = "europe-west1-b", min_nodes = 3, max_nodes = 30, kms_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data" }
    replicas = { c2 = { zone = "europe-north1-a", kms_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data" } }
  }
  expect_failures = [output.clusters]
}

run "a_replica_with_its_own_key" {
  command = plan
  variables {
    first    = { zone = "europe-west1-b", min_nodes = 3, max_nodes = 30, kms_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data" }
    replicas = { c2 = { zone = "europe-north1-a", kms_key = "projects/k/locations/europe-north1/keyRings/r/cryptoKeys/data" } }
  }
  assert {
    condition     = output.clusters["percolator-c2"].kms_key == "projects/k/locations/europe-north1/keyRings/r/cryptoKeys/data"
    error_message = "the replica is not encrypted by its key"
  }
}
