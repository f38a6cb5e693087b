# Two profiles, both with single-cluster routing and transactional writes: every process that meets
# a lock may have to resolve it, which takes a conditional mutation, so even one that only scans
# cannot do without. They differ in priority: Bigtable is likely to run what has a higher one first.
# It does not promise it, and a write of high priority may wait for one of low priority in its
# tablet's log.

locals {
  app_profiles = {
    percolator = {
      priority    = "PRIORITY_HIGH"
      description = "Transactions: programs, workers, the oracle's record."
    }
    percolator-batch = {
      priority    = "PRIORITY_LOW"
      description = "Scans, backups, collection and backfills, of every client."
    }
  }
}

resource "google_bigtable_app_profile" "percolator" {
  for_each = local.app_profiles

  project        = var.project
  instance       = google_bigtable_instance.percolator.name
  app_profile_id = each.key
  description    = each.value.description

  single_cluster_routing {
    cluster_id                 = local.cluster
    allow_transactional_writes = true
  }

  standard_isolation {
    priority = each.value.priority
  }

  # Bigtable warns before it deletes any profile, because requests by it then fail, and the provider
  # takes the warning for an error: a destroy would end here. Nothing else is deleted with a
  # profile.
  ignore_warnings = true
}
