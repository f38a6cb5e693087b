# Alert policies, two kinds. Those of alerts.yaml, the rules of docs/observability, are over
# Percolator's own metrics; Cloud Monitoring evaluates them as Prometheus does. Those below watch
# what Percolator stands on.

locals {
  rules = yamldecode(file("${path.module}/alerts.yaml"))

  # Nothing leads and nobody works before there are servers, so these would call somebody at once.
  await_servers = ["PercolatorNoWorker", "PercolatorOracleNoSpare", "PercolatorOracleWithoutLeader"]

  prometheus = {
    for r in flatten([for g in local.rules.groups : [for r in g.rules : merge({ "for" = "0s" }, r, { group = g.name })]]) :
    r.alert => r if var.alerts && (length(local.servers) > 0 || !contains(local.await_servers, r.alert))
  }
  unit_seconds = { s = 1, m = 60, h = 3600 }
  severities   = { page = "CRITICAL", ticket = "WARNING" }

  thresholds = merge(
    {
      BigtableCPU = {
        filter    = "metric.type=\"bigtable.googleapis.com/cluster/cpu_load\" AND resource.type=\"bigtable_cluster\" AND resource.labels.instance=\"${var.name}\""
        threshold = 0.8
        duration  = "600s"
        severity  = "CRITICAL"
        summary   = "The CPU load of the Bigtable cluster has been above 80 % for 10 minutes: autoscaling is at max_nodes (${var.max_nodes}), or too slow. Transactions become slow first, then locks expire. Raise max_nodes; look for a hot row in Key Visualizer."
      }
      BigtableHottestNode = {
        filter    = "metric.type=\"bigtable.googleapis.com/cluster/cpu_load_hottest_node\" AND resource.type=\"bigtable_cluster\" AND resource.labels.instance=\"${var.name}\""
        threshold = 0.9
        duration  = "900s"
        severity  = "WARNING"
        summary   = "One Bigtable node has been above 90 % CPU for 15 minutes while more nodes do not help: rows that follow each other are written together. Look at Key Visualizer; spread the keys, or give the table splits."
      }
      BigtableStorage = {
        filter    = "metric.type=\"bigtable.googleapis.com/cluster/storage_utilization\" AND resource.type=\"bigtable_cluster\" AND resource.labels.instance=\"${var.name}\""
        threshold = 0.7
        duration  = "600s"
        severity  = "CRITICAL"
        summary   = "Bigtable's nodes hold more than 70 % of what they may; above 100 % writes fail. Raise max_nodes, and see whether collection keeps up (percolator gc status): old versions are kept until it has run."
      }
    },
    var.oracle_store != "spanner" ? {} : {
      SpannerCPU = {
        filter    = "metric.type=\"spanner.googleapis.com/instance/cpu/utilization\" AND resource.type=\"spanner_instance\" AND resource.labels.instance_id=\"${var.name}-tso\""
        threshold = 0.65
        duration  = "600s"
        severity  = "WARNING"
        summary   = "The oracle's Spanner instance is busy, although the oracle writes about once a second: is somebody else using it? A slow store costs the leader its lease."
      }
    },
  )
}

resource "google_monitoring_alert_policy" "percolator" {
  for_each = local.prometheus

  project               = var.project
  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  severity              = local.severities[each.value.labels.severity]
  notification_channels = var.notification_channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    subject   = "${var.name}: ${each.key}"
    # Prometheus names a label of the series {{ $labels.x }}, Cloud Monitoring otherwise.
    content = "${replace(each.value.annotations.summary, "/\\{\\{ \\$labels\\.([a-z_]+) \\}\\}/", "$${metric_or_resource.label.$1}")}\n\n[What to do](${each.value.annotations.runbook_url})"
  }

  conditions {
    display_name = each.key
    condition_prometheus_query_language {
      query               = trimspace(each.value.expr)
      duration            = "${tonumber(regex("^[0-9]+", each.value.for)) * local.unit_seconds[regex("[smh]$", each.value.for)]}s"
      evaluation_interval = "30s"
      rule_group          = each.value.group
      alert_rule          = each.key
      # At the first apply nobody has written the metric yet.
      disable_metric_validation = true
    }
  }
}

resource "google_monitoring_alert_policy" "ground" {
  for_each = { for name, t in local.thresholds : name => t if var.alerts }

  project               = var.project
  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = var.notification_channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    subject   = "${var.name}: ${each.key}"
    content   = each.value.summary
  }

  conditions {
    display_name = each.key
    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.threshold
      duration        = each.value.duration
      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MEAN"
      }
      trigger {
        count = 1
      }
    }
  }
}
