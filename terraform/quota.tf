# Autoscaling ends silently where the quota of nodes ends. This check warns at every plan and stops
# none: not everybody who plans may read quotas, and raising one is somebody else's task.

check "quota" {
  data "google_cloud_quotas_quota_infos" "bigtable" {
    parent  = "projects/${var.project}"
    service = "bigtableadmin.googleapis.com"
  }

  # The quota is found by its name in the console, "SSD nodes per zone". Its most specific value for
  # the zone comes first; -1 is no limit.
  assert {
    condition = try([for nodes in flatten([
      for quota in data.google_cloud_quotas_quota_infos.bigtable.quota_infos : [
        for value in quota.dimensions_infos : tonumber(value.details[0].value) if contains(value.applicable_locations, local.clusters[local.cluster].zone)
      ] if can(regex("(?i)ssd nodes", "${quota.quota_display_name} ${quota.metric_display_name}"))
    ]) : nodes == -1 || nodes >= local.clusters[local.cluster].max_nodes][0], false)
    error_message = "The quota of Bigtable's SSD nodes in ${local.clusters[local.cluster].zone}, which all instances of project ${var.project} share, is below max_nodes (${local.clusters[local.cluster].max_nodes}), or was not found. Look at it in the console, and ask for more or lower max_nodes."
  }
}
