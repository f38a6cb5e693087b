# Who reaches the oracle: the machines with the workers' tags its port, Google's health checks the admin port. Nobody else.

resource "google_compute_firewall" "oracle" {
  project     = var.project
  network     = var.network
  name        = "${var.name}-tso"
  description = "Percolator's workers to its timestamp oracle"
  direction   = "INGRESS"
  source_tags = var.client_tags
  target_tags = [local.oracle_tag]
  allow {
    protocol = "tcp"
    ports    = [local.oracle_port]
  }
}

resource "google_compute_firewall" "health" {
  project       = var.project
  network       = var.network
  name          = "${var.name}-tso-health"
  description   = "Google's health checks to the admin port of the timestamp oracle"
  direction     = "INGRESS"
  source_ranges = ["35.191.0.0/16", "130.211.0.0/22"]
  target_tags   = [local.oracle_tag]
  allow {
    protocol = "tcp"
    ports    = [local.admin_port]
  }
}
