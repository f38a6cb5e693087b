# One identity for each thing that runs. None has a key: machines and workloads are given them,
# people impersonate them.

locals {
  identities = {
    worker = "Programs and workers: transactions"
    batch  = "Scans, backups, collection in processes of their own"
    oracle = "The timestamp oracle's servers"
    schema = "percolator init and schema apply"
  }

  # All that call the oracle, and so have the clients' certificates.
  clients = merge(
    { worker = google_service_account.percolator["worker"].member, batch = google_service_account.percolator["batch"].member },
    { for m in concat(keys(var.worker_members), var.operator_members) : m => m },
  )
}

resource "google_service_account" "percolator" {
  for_each = local.identities

  project      = var.project
  account_id   = "${var.name}-${each.key}"
  display_name = "${var.name}: ${each.key}"
  description  = each.value
}

# What every process that runs for long tells Google Cloud about itself.
resource "google_project_iam_member" "telemetry" {
  for_each = {
    for pair in setproduct(["worker", "batch", "oracle"], ["roles/logging.logWriter", "roles/monitoring.metricWriter", "roles/cloudtrace.agent"]) :
    "${pair[0]} ${pair[1]}" => { identity = pair[0], role = pair[1] }
  }

  project = var.project
  role    = each.value.role
  member  = google_service_account.percolator[each.value.identity].member
}
