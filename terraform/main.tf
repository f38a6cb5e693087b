# The instance and its app profile. Tables are not here: CreateSchema makes them, together with the stored schema that
# every client checks, so that the two cannot disagree.

resource "google_bigtable_instance" "percolator" {
  project             = var.project
  name                = var.instance
  deletion_protection = var.deletion_protection

  cluster {
    cluster_id   = "${var.instance}-c1"
    zone         = var.zone
    storage_type = "SSD"

    autoscaling_config {
      min_nodes  = var.min_nodes
      max_nodes  = var.max_nodes
      cpu_target = var.cpu_target
    }
  }
}

# CheckAndMutateRow is only atomic when all traffic goes to one cluster; Bigtable refuses it on other profiles.
resource "google_bigtable_app_profile" "transactions" {
  project        = var.project
  instance       = google_bigtable_instance.percolator.name
  app_profile_id = "percolator"
  description    = "Single cluster, transactional writes: the only profile that Percolator may use."

  single_cluster_routing {
    cluster_id                 = "${var.instance}-c1"
    allow_transactional_writes = true
  }

  ignore_warnings = false
}
