# terraform -chdir=terraform test, with a provider that is there but never called.

mock_provider "google" {
  mock_resource "google_compute_address" {
    defaults = { address = "10.0.0.2" }
  }
}

override_resource {
  target = google_service_account.percolator["worker"]
  values = {
    email  = "percolator-worker@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:percolator-worker@my-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.percolator["batch"]
  values = {
    email  = "percolator-batch@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:percolator-batch@my-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.percolator["oracle"]
  values = {
    email  = "percolator-oracle@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:percolator-oracle@my-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.percolator["schema"]
  values = {
    email  = "percolator-schema@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:percolator-schema@my-project.iam.gserviceaccount.com"
  }
}

variables {
  project          = "my-project"
  region           = "europe-west1"
  name             = "percolator"
  schema_file      = "examples/production/schema.yaml"
  zone             = "europe-west1-b"
  oracle_zones     = ["europe-west1-b", "europe-west1-c"]
  oracle_image     = "europe-west1-docker.pkg.dev/my-project/percolator/percolator@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  network          = "projects/my-project/global/networks/main"
  subnetwork       = "projects/my-project/regions/europe-west1/subnetworks/main"
  reader_members   = ["group:readers@example.com"]
  operator_members = ["group:operators@example.com"]
}

run "instance" {
  assert {
    condition     = google_bigtable_instance.percolator.deletion_protection && !google_bigtable_instance.percolator.force_destroy
    error_message = "the instance is not protected against deletion"
  }
  assert {
    condition     = alltrue([for c in google_bigtable_instance.percolator.cluster : c.storage_type == "SSD" && c.zone == "europe-west1-b"]) && length(google_bigtable_instance.percolator.cluster) == 1
    error_message = "not one SSD cluster in the zone"
  }
  assert {
    condition     = google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].min_nodes == 1 && google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].max_nodes == 3 && google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].cpu_target == 60
    error_message = "the defaults of autoscaling"
  }
  assert {
    condition     = length(google_kms_crypto_key_iam_member.encryption) == 0
    error_message = "grants on a key without a key"
  }
}

run "tables" {
  assert {
    condition     = toset(keys(google_bigtable_table.percolator)) == toset(["documents", "documents.by-author", "documents.by-url", "percolator_meta", "words"])
    error_message = "tables: ${join(", ", keys(google_bigtable_table.percolator))}"
  }
  assert {
    condition = alltrue([for name, t in google_bigtable_table.percolator :
    toset(t.column_family[*].family) == (name == "percolator_meta" ? toset(["meta", "oracle"]) : toset(["data", "lock", "notify", "write"]))])
    error_message = "families"
  }
  assert {
    condition     = alltrue([for t in google_bigtable_table.percolator : t.deletion_protection == "PROTECTED"])
    error_message = "a table is not protected against deletion"
  }
  assert {
    condition     = google_bigtable_table.percolator["documents"].split_keys == tolist(["g", "p"])
    error_message = "splits"
  }
  assert {
    condition     = toset(output.tables) == toset(keys(google_bigtable_table.percolator))
    error_message = "the output lists other tables"
  }
}

run "app_profiles" {
  assert {
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.single_cluster_routing[0].allow_transactional_writes && p.single_cluster_routing[0].cluster_id == google_bigtable_instance.percolator.cluster[0].cluster_id])
    error_message = "a profile is not single-cluster with transactional writes"
  }
  assert {
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.multi_cluster_routing_use_any != true && !p.ignore_warnings])
    error_message = "a profile routes to any cluster"
  }
  assert {
    condition = { for id, p in google_bigtable_app_profile.percolator : id => p.standard_isolation[0].priority } == {
      percolator       = "PRIORITY_HIGH"
      percolator-batch = "PRIORITY_LOW"
    }
    error_message = "priorities: high for transactions, low for scans and collection"
  }
}

run "rights_on_tables" {
  # Who writes: workers, batch and operators, every table. Nobody else.
  assert {
    condition = toset([for g in google_bigtable_table_iam_member.worker : "${g.table} ${g.member}"]) == toset([
      for pair in setproduct(keys(google_bigtable_table.percolator), [
        google_service_account.percolator["worker"].member, google_service_account.percolator["batch"].member, "group:operators@example.com",
      ]) : "${pair[0]} ${pair[1]}"
    ])
    error_message = "who may write which table"
  }
  assert {
    condition     = alltrue([for g in google_bigtable_table_iam_member.worker : g.role == "roles/bigtable.user"])
    error_message = "workers have another role than bigtable.user"
  }
  assert {
    condition = toset([for g in google_bigtable_table_iam_member.reader : "${g.table} ${g.member} ${g.role}"]) == toset([
      for t in keys(google_bigtable_table.percolator) : "${t} group:readers@example.com roles/bigtable.reader"
    ])
    error_message = "readers"
  }
  # The oracle sees percolator_meta, and with its record in Spanner does not write it.
  assert {
    condition     = google_bigtable_table_iam_member.oracle.table == "percolator_meta" && google_bigtable_table_iam_member.oracle.role == "roles/bigtable.reader" && google_bigtable_table_iam_member.oracle.member == google_service_account.percolator["oracle"].member
    error_message = "the oracle's rights on Bigtable"
  }
}

run "schema_is_an_identity_apart" {
  assert {
    condition     = google_bigtable_table_iam_member.schema.table == "percolator_meta" && google_bigtable_table_iam_member.schema.member == google_service_account.percolator["schema"].member
    error_message = "who applies a schema writes percolator_meta alone"
  }
  assert {
    condition     = toset(google_project_iam_custom_role.schema.permissions) == toset(["bigtable.instances.get", "bigtable.tables.create", "bigtable.tables.get", "bigtable.tables.list", "bigtable.tables.update"])
    error_message = "the role that applies schemas can do more than that"
  }
  assert {
    condition     = google_bigtable_instance_iam_member.schema.role == google_project_iam_custom_role.schema.id && google_bigtable_instance_iam_member.schema.member == google_service_account.percolator["schema"].member
    error_message = "the role is not given to the identity"
  }
  assert {
    condition     = !contains([for g in google_bigtable_table_iam_member.worker : g.member], google_service_account.percolator["schema"].member)
    error_message = "who applies a schema can write the tables"
  }
  assert {
    condition     = toset([for g in google_bigtable_instance_iam_member.viewer : g.role]) == toset(["roles/bigtable.viewer"])
    error_message = "rights on the whole instance"
  }
  assert {
    condition     = length(distinct([for a in google_service_account.percolator : a.account_id])) == 4 && toset([for g in google_project_iam_member.telemetry : g.role]) == toset(["roles/logging.logWriter", "roles/monitoring.metricWriter", "roles/cloudtrace.agent"])
    error_message = "service accounts, and what they may tell the project"
  }
}

run "spanner" {
  assert {
    condition     = google_spanner_database.oracle[0].enable_drop_protection && google_spanner_database.oracle[0].deletion_protection && !google_spanner_instance.oracle[0].force_destroy
    error_message = "the oracle's database is not protected"
  }
  assert {
    condition     = length(google_spanner_database.oracle[0].ddl) == 2 && alltrue([for s in google_spanner_database.oracle[0].ddl : startswith(s, "CREATE TABLE IF NOT EXISTS PercolatorOracle")])
    error_message = "the statements"
  }
  assert {
    condition     = google_spanner_instance.oracle[0].processing_units == 100 && google_spanner_instance.oracle[0].config == "regional-europe-west1"
    error_message = "the smallest instance of the region"
  }
  assert {
    condition = { for k, g in google_spanner_database_iam_member.oracle : k => "${g.role} ${g.member}" } == {
      oracle = "roles/spanner.databaseUser ${google_service_account.percolator["oracle"].member}"
      schema = "roles/spanner.databaseUser ${google_service_account.percolator["schema"].member}"
    }
    error_message = "who writes the oracle's database"
  }
  assert {
    condition     = alltrue([for g in google_spanner_database_iam_member.operator : g.role == "roles/spanner.databaseReader"])
    error_message = "operators write the oracle's record by percolator tso raise as the schema identity, not as themselves"
  }
  assert {
    condition     = output.spanner_database == "projects/my-project/instances/percolator-tso/databases/oracle"
    error_message = "its full name"
  }
}

run "oracle_in_two_zones" {
  assert {
    condition     = toset([for g in google_compute_instance_group_manager.oracle : g.zone]) == toset(["europe-west1-b", "europe-west1-c"])
    error_message = "one group in each of two zones"
  }
  assert {
    condition     = alltrue([for g in google_compute_instance_group_manager.oracle : one(g.auto_healing_policies).health_check == google_compute_health_check.oracle.id])
    error_message = "a group without the health check"
  }
  assert {
    condition     = google_compute_health_check.oracle.http_health_check[0].request_path == "/healthz" && google_compute_health_check.oracle.http_health_check[0].port == 7071
    error_message = "the health check asks something else than whether the process lives"
  }
  # An apply leaves the servers alone, so that they can be replaced one after the other; and a replacement keeps name and address.
  assert {
    condition     = alltrue([for g in google_compute_instance_group_manager.oracle : g.update_policy[0].type == "OPPORTUNISTIC" && g.update_policy[0].replacement_method == "RECREATE" && g.update_policy[0].max_surge_fixed == 0])
    error_message = "how servers are replaced"
  }
  assert {
    condition     = alltrue([for z, c in google_compute_per_instance_config.oracle : one(c.preserved_state[0].internal_ip).ip_address[0].address == google_compute_address.oracle[z].self_link && one(c.preserved_state[0].internal_ip).auto_delete == "NEVER"])
    error_message = "a server without an address that stays"
  }
  assert {
    condition     = alltrue([for a in google_compute_address.oracle : a.address_type == "INTERNAL"]) && alltrue([for t in google_compute_instance_template.oracle : length(t.network_interface[0].access_config) == 0])
    error_message = "a public address"
  }
  assert {
    condition     = length(output.oracle_rollout) == 2 && output.oracle_addresses == "10.0.0.2:7070,10.0.0.2:7070"
    error_message = "outputs: ${output.oracle_addresses}"
  }
  assert {
    condition     = output.environment.PERCOLATOR_TSO_SERVER_NAME == "tso.percolator.internal" && output.environment.PERCOLATOR_APP_PROFILE == "percolator"
    error_message = "environment"
  }
}

run "what_the_servers_run" {
  assert {
    condition     = alltrue([for t in google_compute_instance_template.oracle : can(yamldecode(t.metadata["user-data"]).write_files) && startswith(t.metadata["user-data"], "#cloud-config\n")])
    error_message = "the machines' configuration is not YAML"
  }
  assert {
    condition = alltrue([for t in google_compute_instance_template.oracle : alltrue([for a in [
      "${var.oracle_image} tso serve", "--spanner=projects/my-project/instances/percolator-tso/databases/oracle",
      "--data=projects/my-project/instances/percolator", "--listen=0.0.0.0:7070", "--advertise=10.0.0.2:7070", "--admin=0.0.0.0:7071", "--admin-public",
      "--tls-cert=/tls/server-cert", "--tls-key=/tls/server-key", "--tls-client-ca=/tls/ca",
    ] : strcontains(t.metadata["user-data"], a)])])
    error_message = "the server's arguments"
  }
  assert {
    condition     = !strcontains(google_compute_instance_template.oracle["europe-west1-b"].metadata["user-data"], "--insecure")
    error_message = "plaintext"
  }
  assert {
    condition     = length(yamldecode(google_compute_instance_template.oracle["europe-west1-b"].metadata["user-data"]).write_files) == 5
    error_message = "without a collector there are the oracle, the firewall and three files about certificates"
  }
}

run "who_reaches_the_oracle" {
  assert {
    condition     = google_compute_firewall.oracle.source_tags == toset(["percolator-worker"]) && length(coalesce(google_compute_firewall.oracle.source_ranges, [])) == 0 && google_compute_firewall.oracle.target_tags == toset(["percolator-tso"])
    error_message = "others than the workers reach the oracle"
  }
  assert {
    condition     = one(google_compute_firewall.oracle.allow).ports == tolist(["7070"]) && one(google_compute_firewall.health.allow).ports == tolist(["7071"])
    error_message = "ports"
  }
  assert {
    condition     = google_compute_firewall.health.source_ranges == toset(["35.191.0.0/16", "130.211.0.0/22"])
    error_message = "others than health checks reach the admin port"
  }
  assert {
    condition     = alltrue([for t in google_compute_instance_template.oracle : t.tags == toset(["percolator-tso"])])
    error_message = "the rules do not apply to the servers"
  }
}

run "certificates" {
  assert {
    condition     = toset(keys(google_secret_manager_secret.tls)) == toset(["ca", "server-cert", "server-key", "client-cert", "client-key"])
    error_message = "secrets"
  }
  assert {
    condition     = alltrue([for g in google_secret_manager_secret_iam_member.tls : g.member == google_service_account.percolator["oracle"].member if endswith(g.secret_id, "server-key")])
    error_message = "others than the oracle read its key"
  }
  assert {
    condition     = !contains([for g in google_secret_manager_secret_iam_member.tls : g.member if endswith(g.secret_id, "client-key")], google_service_account.percolator["oracle"].member)
    error_message = "the oracle reads the workers' key"
  }
}

run "bigtable_as_the_oracles_store" {
  variables {
    oracle_store    = "bigtable"
    oracle_security = "alts"
  }
  assert {
    condition     = length(google_spanner_instance.oracle) + length(google_spanner_database.oracle) + length(google_spanner_database_iam_member.oracle) + length(google_secret_manager_secret.tls) == 0 && output.spanner_database == null
    error_message = "something of Spanner, or a secret, is left"
  }
  assert {
    condition     = google_bigtable_table_iam_member.oracle.role == "roles/bigtable.user" && google_bigtable_table_iam_member.oracle.table == "percolator_meta"
    error_message = "the oracle cannot write its record"
  }
  assert {
    condition = alltrue([for a in ["--project=my-project", "--instance=percolator", "--app-profile=percolator", "--alts"] :
    strcontains(google_compute_instance_template.oracle["europe-west1-b"].metadata["user-data"], a)])
    error_message = "the server's arguments"
  }
  assert {
    condition     = output.environment.PERCOLATOR_TSO_ALTS == "true"
    error_message = "environment"
  }
}

run "own_key" {
  variables { kms_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data" }
  assert {
    condition     = google_bigtable_instance.percolator.cluster[0].kms_key_name == var.kms_key && google_spanner_database.oracle[0].encryption_config[0].kms_key_name == var.kms_key
    error_message = "something is not encrypted by the key"
  }
  assert {
    condition     = toset(keys(google_kms_crypto_key_iam_member.encryption)) == toset(["gcp-sa-bigtable", "gcp-sa-spanner"])
    error_message = "a service cannot use the key"
  }
}

run "before_there_is_an_image" {
  variables { oracle_image = null }
  assert {
    condition     = length(google_compute_instance_group_manager.oracle) + length(google_compute_instance_template.oracle) == 0 && length(google_compute_address.oracle) == 2 && length(google_bigtable_table.percolator) == 5
    error_message = "everything but the servers"
  }
}

run "metrics_collector" {
  variables { metrics_collector_image = "us-docker.pkg.dev/p/r/otelcol-google:1" }
  assert {
    condition     = strcontains(google_compute_instance_template.oracle["europe-west1-c"].metadata["user-data"], "us-docker.pkg.dev/p/r/otelcol-google:1") && length(yamldecode(google_compute_instance_template.oracle["europe-west1-c"].metadata["user-data"]).write_files) == 7
    error_message = "no collector on the machine"
  }
}

run "alerts" {
  assert {
    condition     = toset(keys(google_monitoring_alert_policy.ground)) == toset(["BigtableCPU", "BigtableHottestNode", "BigtableStorage", "SpannerCPU"])
    error_message = "policies on what Percolator stands on"
  }
  assert {
    condition     = alltrue([for p in google_monitoring_alert_policy.percolator : p.conditions[0].condition_prometheus_query_language[0].disable_metric_validation])
    error_message = "the first apply would fail, as nobody has written the metrics"
  }
  assert {
    condition     = alltrue([for p in google_monitoring_alert_policy.percolator : length(p.documentation[0].content) > 0])
    error_message = "an alert does not say what to do"
  }
  assert {
    condition = length(setsubtract([
      "PercolatorOracleWithoutLeader", "PercolatorOracleWindowLow", "PercolatorStuckLocks", "PercolatorNotificationBacklog",
      "PercolatorConflictRate", "PercolatorCollectionLag",
    ], keys(google_monitoring_alert_policy.percolator))) == 0
    error_message = "an alert is missing: ${join(", ", keys(google_monitoring_alert_policy.percolator))}"
  }
  assert {
    condition = alltrue([
      google_monitoring_alert_policy.percolator["PercolatorOracleWithoutLeader"].conditions[0].condition_prometheus_query_language[0].duration == "30s",
      google_monitoring_alert_policy.percolator["PercolatorStuckLocks"].conditions[0].condition_prometheus_query_language[0].duration == "300s",
      google_monitoring_alert_policy.percolator["PercolatorOutcomeUnknown"].conditions[0].condition_prometheus_query_language[0].duration == "0s",
      google_monitoring_alert_policy.percolator["PercolatorOracleWithoutLeader"].severity == "CRITICAL",
    ])
    error_message = "durations and severities of the rules"
  }
  assert {
    condition     = startswith(google_monitoring_alert_policy.percolator["PercolatorOracleStoreSilent"].documentation[0].content, "The store of the oracle's record does not answer server $${metric_or_resource.label.instance}.\n\n[What to do](https://")
    error_message = google_monitoring_alert_policy.percolator["PercolatorOracleStoreSilent"].documentation[0].content
  }
  assert {
    condition     = alltrue([for p in google_monitoring_alert_policy.ground : strcontains(p.conditions[0].condition_threshold[0].filter, "\"percolator")])
    error_message = "an alert on instances of others"
  }
}

run "without_alerts" {
  variables { alerts = false }
  assert {
    condition     = length(google_monitoring_alert_policy.percolator) + length(google_monitoring_alert_policy.ground) == 0
    error_message = "alerts"
  }
}

run "protection_can_be_taken_away" {
  variables { deletion_protection = false }
  assert {
    condition     = !google_bigtable_instance.percolator.deletion_protection && !google_spanner_database.oracle[0].enable_drop_protection && alltrue([for t in google_bigtable_table.percolator : t.deletion_protection == "UNPROTECTED"])
    error_message = "a destroy would fail"
  }
}
