# One instance, one SSD cluster. Percolator's unit of atomicity is the conditional mutation of a
# row, and that is atomic in one cluster only: a second cluster would need an app profile of its own
# that never writes, and a failover to it loses the newest writes, so it is left to those who know
# that they want it.

locals {
  cluster = "${var.name}-c1"
}

resource "google_bigtable_instance" "percolator" {
  project             = var.project
  name                = var.name
  display_name        = var.name
  deletion_protection = var.deletion_protection
  # Bigtable does not delete an instance that has backups, and automated ones are always there.
  force_destroy = !var.deletion_protection
  labels        = var.labels

  cluster {
    cluster_id   = local.cluster
    zone         = var.zone
    storage_type = "SSD"
    kms_key_name = var.kms_key

    autoscaling_config {
      min_nodes      = var.min_nodes
      max_nodes      = var.max_nodes
      cpu_target     = var.cpu_target
      storage_target = var.storage_target
    }
  }

  depends_on = [terraform_data.key_granted]
}
