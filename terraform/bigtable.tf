# One instance. Percolator's unit of atomicity is the conditional mutation of a row, and that is
# atomic in one cluster only: one SSD cluster takes transactions. Replicas are for the day on which
# that one is lost; no app profile of this module routes to them before.

module "clusters" {
  source = "./modules/clusters"

  name           = var.name
  first          = { zone = var.zone, kms_key = var.kms_key, min_nodes = var.min_nodes, max_nodes = var.max_nodes }
  replicas       = var.replicas
  failed_over_to = var.failed_over_to
}

locals {
  clusters = module.clusters.clusters
  cluster  = module.clusters.serving
}

resource "google_bigtable_instance" "percolator" {
  project             = var.project
  name                = var.name
  display_name        = var.name
  edition             = var.edition
  deletion_protection = var.deletion_protection
  # Bigtable does not delete an instance that has backups, and automated ones are always there.
  force_destroy = !var.deletion_protection
  labels        = var.labels
  tags          = var.tags

  # deletion_protection does not protect a cluster: one that is not listed here is deleted.
  dynamic "cluster" {
    for_each = local.clusters
    content {
      cluster_id   = cluster.key
      zone         = cluster.value.zone
      storage_type = "SSD"
      kms_key_name = cluster.value.kms_key

      autoscaling_config {
        min_nodes      = cluster.value.min_nodes
        max_nodes      = cluster.value.max_nodes
        cpu_target     = var.cpu_target
        storage_target = var.storage_target
      }
    }
  }

  depends_on = [terraform_data.key_granted]
}
