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
        threshold = 0.7
        duration  = "600s"
        severity  = "CRITICAL"
        summary   = "The CPU load of a Bigtable cluster has been above 70 %, the most that Google recommends, for 10 minutes: autoscaling is at max_nodes (${var.max_nodes}), or too slow. Transactions become slow first, then locks expire. Raise max_nodes; look for a hot row in Key Visualizer."
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
        summary   = "Bigtable's nodes hold more than 70 % of what they may; above 100 % reads and writes are refused. Raise max_nodes, and see whether collection keeps up (percolator gc status): old versions are kept until it has run."
      }
    },
    # A cluster whose nodes cannot grow is always at its most.
    { for name, c in local.clusters : "BigtableAtMaxNodes ${name}" => {
      filter    = "metric.type=\"bigtable.googleapis.com/cluster/node_count\" AND resource.type=\"bigtable_cluster\" AND resource.labels.instance=\"${var.name}\" AND resource.labels.cluster=\"${name}\""
      threshold = c.max_nodes - 0.5
      duration  = "1800s"
      severity  = "WARNING"
      summary   = "The cluster ${name} has had the most nodes that autoscaling may give it, ${c.max_nodes}, for half an hour: more load finds no more nodes. Raise max_nodes, and the quota of nodes with it."
    } if c.max_nodes > c.min_nodes },
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

# Requests that the service fails, as a share of all: a client repeats most of them, so programs may
# not show it yet.
resource "google_monitoring_alert_policy" "errors" {
  count = var.alerts ? 1 : 0

  project               = var.project
  display_name          = "${var.name}: BigtableErrors"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    subject   = "${var.name}: BigtableErrors"
    content   = "Bigtable has failed more than 1 % of the requests of one method for 10 minutes. metric.labels.error_code of bigtable.googleapis.com/server/error_count says how: RESOURCE_EXHAUSTED asks for fewer requests or more nodes, or says that the storage is full; UNAVAILABLE and DEADLINE_EXCEEDED are Google's, unless the CPU is above 70 %; PERMISSION_DENIED is ours."
  }

  conditions {
    display_name = "BigtableErrors"
    condition_threshold {
      filter             = "metric.type=\"bigtable.googleapis.com/server/error_count\" AND resource.type=\"bigtable_table\" AND resource.labels.instance=\"${var.name}\""
      denominator_filter = "metric.type=\"bigtable.googleapis.com/server/request_count\" AND resource.type=\"bigtable_table\" AND resource.labels.instance=\"${var.name}\""
      comparison         = "COMPARISON_GT"
      threshold_value    = 0.01
      duration           = "600s"
      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_RATE"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.labels.method"]
      }
      denominator_aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_RATE"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.labels.method"]
      }
      trigger {
        count = 1
      }
    }
  }
}

# No metric of Bigtable's was found that counts backups, so this reads its audit log, in which an
# administrator's backups and copies are. Whether Bigtable writes the failure of one of its own
# there, nobody has seen: look for a new one every day.
resource "google_monitoring_alert_policy" "backups" {
  count = var.alerts ? 1 : 0

  project               = var.project
  display_name          = "${var.name}: BigtableBackupFailed"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  documentation {
    mime_type = "text/markdown"
    subject   = "${var.name}: BigtableBackupFailed"
    content   = "A backup of Bigtable's, or a copy of one, has failed: the newest round is not complete, and a restore has to take the one before. gcloud bigtable backups list --instance=${var.name} shows what is there."
  }

  conditions {
    display_name = "BigtableBackupFailed"
    condition_matched_log {
      filter = "protoPayload.serviceName=\"bigtableadmin.googleapis.com\" AND protoPayload.methodName=~\"(CreateBackup|CopyBackup)$\" AND protoPayload.resourceName:\"/instances/${var.name}/\" AND severity>=ERROR"
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
    auto_close = "86400s"
  }
}
