output "clusters" {
  description = "Zone, key and nodes of every cluster, by its name."
  value       = { for end, c in local.clusters : "${var.name}-${end}" => c }

  precondition {
    condition     = length(local.bad_ends) == 0
    error_message = "Not ends of replicas' names: ${join(", ", local.bad_ends)}. 1 to 6 lower-case letters and digits, and not c1, which is the first cluster."
  }
  precondition {
    condition     = length(distinct(local.zones)) == length(local.zones)
    error_message = "Two clusters in one zone: Bigtable refuses that."
  }
  precondition {
    condition     = length(local.bad_nodes) == 0
    error_message = "Nodes of ${join(", ", local.bad_nodes)}: at least 1, and at most ten times min_nodes."
  }
  precondition {
    condition     = length(local.bad_keys) == 0
    error_message = "Keys of ${join(", ", local.bad_keys)}: with kms_key every replica needs kms_key too, of its own region, and without none may have one."
  }
  precondition {
    condition     = var.failed_over_to == null || contains(keys(var.replicas), coalesce(var.failed_over_to, "c1"))
    error_message = "failed_over_to names no replica: an apply would delete the cluster that has the data."
  }
}

output "serving" {
  description = "Name of the cluster that takes transactions."
  value       = "${var.name}-${local.serving}"
}
