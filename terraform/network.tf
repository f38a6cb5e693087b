# Who reaches the oracle: the clients its port, Google's health checks the admin port. Nobody else.
# A rule names machines by tags and addresses, or by service accounts, never by both, so there may
# be two for the clients. The rules belong to the project of the network.

locals {
  network_project = coalesce(var.network_project, var.project)
}

resource "google_compute_firewall" "oracle" {
  count = length(var.client_tags) + length(var.client_ranges) == 0 ? 0 : 1

  project       = local.network_project
  network       = var.network
  name          = "${var.name}-tso"
  description   = "Percolator's workers to its timestamp oracle"
  direction     = "INGRESS"
  source_tags   = length(var.client_tags) == 0 ? null : var.client_tags
  source_ranges = length(var.client_ranges) == 0 ? null : var.client_ranges
  target_tags   = [local.oracle_tag]
  allow {
    protocol = "tcp"
    ports    = [local.oracle_port]
  }
}

moved {
  from = google_compute_firewall.oracle
  to   = google_compute_firewall.oracle[0]
}

resource "google_compute_firewall" "oracle_accounts" {
  count = length(var.client_service_accounts) == 0 ? 0 : 1

  project                 = local.network_project
  network                 = var.network
  name                    = "${var.name}-tso-accounts"
  description             = "Percolator's workers, by service account, to its timestamp oracle"
  direction               = "INGRESS"
  source_service_accounts = var.client_service_accounts
  target_service_accounts = [google_service_account.percolator["oracle"].email]
  allow {
    protocol = "tcp"
    ports    = [local.oracle_port]
  }
}

resource "google_compute_firewall" "health" {
  project       = local.network_project
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
