# Which clusters the Bigtable instance has, and which one takes transactions. The provider deletes
# every cluster that the configuration does not have, so a mistake here costs the data. The module
# has no provider, so that a test evaluates it on a machine that has never seen Google Cloud.

locals {
  # A failover abandons the first cluster: what it wrote alone must never arrive later.
  clusters = merge(
    { for end in var.failed_over_to == null ? ["c1"] : [] : end => var.first },
    { for end, r in var.replicas : end => merge(r, {
      min_nodes = coalesce(r.min_nodes, var.first.min_nodes)
      max_nodes = coalesce(r.max_nodes, var.first.max_nodes)
    }) },
  )
  serving = coalesce(var.failed_over_to, "c1")

  zones     = concat([var.first.zone], [for r in var.replicas : r.zone])
  bad_ends  = [for end in keys(var.replicas) : end if end == "c1" || !can(regex("^[a-z0-9]{1,6}$", end))]
  bad_nodes = [for end, c in local.clusters : end if c.min_nodes < 1 || c.max_nodes < c.min_nodes || c.max_nodes > 10 * c.min_nodes]
  bad_keys = [for end, r in var.replicas : end if(r.kms_key == null) != (var.first.kms_key == null) || !can(regex(
    "^projects/[^/]+/locations/${replace(r.zone, "/-[a-z]$/", "")}/keyRings/[^/]+/cryptoKeys/[^/]+$",
  coalesce(r.kms_key, "projects/p/locations/${replace(r.zone, "/-[a-z]$/", "")}/keyRings/r/cryptoKeys/none")))]
}
