# terraform -chdir=terraform test, with a provider that is there but never called.

mock_provider "google" {
  mock_resource "google_compute_address" {
    defaults = { address = "10.0.0.2" }
  }
  mock_data "google_cloud_quotas_quota_infos" {
    defaults = {
      quota_infos = [{
        quota_display_name  = "SSD nodes per zone"
        metric_display_name = "SSD nodes"
        dimensions_infos = [
          { applicable_locations = ["europe-west1-c"], details = [{ value = "1" }], dimensions = { zone = "europe-west1-c" } },
          { applicable_locations = ["europe-west1-b", "europe-west1-d"], details = [{ value = "30" }], dimensions = {} },
        ]
      }]
    }
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
    name   = "projects/my-project/serviceAccounts/percolator-schema@my-project.iam.gserviceaccount.com"
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
  reader_members   = { "group:readers@example.com" = ["documents"] }
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
    condition     = google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].min_nodes == 1 && google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].max_nodes == 3 && google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].cpu_target == 60 && google_bigtable_instance.percolator.cluster[0].autoscaling_config[0].storage_target == 2560
    error_message = "the defaults of autoscaling"
  }
  assert {
    condition     = length(google_kms_crypto_key_iam_member.encryption) == 0
    error_message = "grants on a key without a key"
  }
}

run "a_replica" {
  command = plan
  variables {
    replicas = { c2 = { zone = "europe-north1-a", max_nodes = 5 } }
  }
  assert {
    condition     = [for c in google_bigtable_instance.percolator.cluster : "${c.cluster_id} ${c.zone} ${c.storage_type} ${c.autoscaling_config[0].max_nodes}"] == ["percolator-c1 europe-west1-b SSD 3", "percolator-c2 europe-north1-a SSD 5"]
    error_message = "an apply would delete the replica, or make another one"
  }
  assert {
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.single_cluster_routing[0].cluster_id == "percolator-c1"]) && output.serving_cluster == "percolator-c1"
    error_message = "a profile routes to the replica"
  }
  assert {
    condition     = keys(output.clusters) == ["percolator-c1", "percolator-c2"]
    error_message = "the output lists other clusters"
  }
}

# What is planned after the steps of docs/DISASTER.md: exactly what they left.
run "a_failover" {
  command = plan
  variables {
    replicas       = { c2 = { zone = "europe-north1-a", max_nodes = 5 } }
    failed_over_to = "c2"
  }
  assert {
    condition     = [for c in google_bigtable_instance.percolator.cluster : "${c.cluster_id} ${c.zone}"] == ["percolator-c2 europe-north1-a"]
    error_message = "an apply would delete the survivor, or make the lost cluster again"
  }
  assert {
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.single_cluster_routing[0].cluster_id == "percolator-c2" && p.single_cluster_routing[0].allow_transactional_writes])
    error_message = "a profile routes to the lost cluster"
  }
  assert {
    condition     = length(google_spanner_instance.oracle) == 1 && google_spanner_instance.oracle[0].config == "regional-europe-west1"
    error_message = "the oracle's record has moved"
  }
  # The quota of the survivor's zone is not among those of the mock.
  expect_failures = [check.quota]
}

run "a_restored_table_is_as_before" {
  # A restore brings data and families, and neither protection, nor backups, nor rights on the
  # table: the same configuration gives them back.
  command = plan
  assert {
    condition     = alltrue([for name in ["percolator_meta", "percolator_journal"] : google_bigtable_table.percolator[name].deletion_protection == "PROTECTED" && one(google_bigtable_table.percolator[name].automated_backup_policy).frequency == "24h0m0s"])
    error_message = "a table of Percolator's own is not protected"
  }
  assert {
    condition     = alltrue([for name in keys(google_bigtable_table.percolator) : length([for g in google_bigtable_table_iam_member.percolator : g if g.table == name]) > 0])
    error_message = "a table that nobody may read"
  }
}

run "edition_and_tags" {
  variables {
    edition = "ENTERPRISE_PLUS"
    tags    = { "tagKeys/1" = "tagValues/2" }
  }
  assert {
    condition     = google_bigtable_instance.percolator.edition == "ENTERPRISE_PLUS" && google_bigtable_instance.percolator.tags == tomap({ "tagKeys/1" = "tagValues/2" })
    error_message = "edition and tags"
  }
}

run "tables" {
  assert {
    condition     = toset(keys(google_bigtable_table.percolator)) == toset(["documents", "documents.by-author", "documents.by-url", "percolator_journal", "percolator_meta", "words"])
    error_message = "tables: ${join(", ", keys(google_bigtable_table.percolator))}"
  }
  assert {
    condition = alltrue([for name, t in google_bigtable_table.percolator :
    toset(t.column_family[*].family) == (name == "percolator_meta" ? toset(["meta", "oracle"]) : name == "percolator_journal" ? toset(["journal"]) : toset(["data", "lock", "notify", "write"]))])
    error_message = "families"
  }
  assert {
    condition     = { for name, p in google_bigtable_gc_policy.journal : "${p.table}:${p.column_family}" => p.max_version[0].number } == { "percolator_journal:journal" = 1 }
    error_message = "what Bigtable collects"
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
    condition     = alltrue([for t in google_bigtable_table.percolator : one(t.automated_backup_policy).retention_period == "168h0m0s" && one(t.automated_backup_policy).frequency == "24h0m0s"])
    error_message = "a table is not backed up every day, for a week"
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
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.multi_cluster_routing_use_any != true])
    error_message = "a profile routes to any cluster"
  }
  assert {
    condition = { for id, p in google_bigtable_app_profile.percolator : id => p.standard_isolation[0].priority } == {
      percolator       = "PRIORITY_HIGH"
      percolator-batch = "PRIORITY_LOW"
    }
    error_message = "priorities: high for transactions, low for scans and collection"
  }
  assert {
    condition     = alltrue([for p in google_bigtable_app_profile.percolator : p.ignore_warnings])
    error_message = "Bigtable warns before it deletes a profile, and a destroy ends there"
  }
}

# What each grant is for stands in modules/grants, whose tests go through the identities. Here: they
# are those resources, for the right members.
run "rights" {
  assert {
    condition = toset([for g in google_bigtable_table_iam_member.percolator : "${g.table} ${g.member} ${g.role}"]) == toset([
      for g in module.grants.on_tables : "${g.table} ${contains(["worker", "batch", "oracle", "schema"], g.who) ? google_service_account.percolator[g.who].member : g.who} ${g.role}"
    ])
    error_message = "rights on tables"
  }
  assert {
    condition = toset([for g in google_bigtable_table_iam_member.percolator : g.table if g.member == "group:readers@example.com"]) == toset([
      "documents", "documents.by-author", "documents.by-url", "percolator_journal", "percolator_meta",
    ])
    error_message = "a reader reads other tables than the one that it is given, its indexes, percolator_meta and percolator_journal"
  }
  # Who opens connections: everybody who has a right on any table.
  assert {
    condition = toset([for g in google_bigtable_instance_iam_member.percolator : g.member if g.role == google_project_iam_custom_role.percolator["ping"].id]) == toset([
      for g in google_bigtable_table_iam_member.percolator : g.member
    ])
    error_message = "an identity cannot prime its connections"
  }
  assert {
    condition     = google_project_iam_custom_role.percolator["ping"].permissions == toset(["bigtable.instances.ping"])
    error_message = "the role on the instance can do more than to open connections"
  }
  assert {
    condition = toset([for g in google_bigtable_instance_iam_member.percolator : "${g.member} ${g.role}" if g.role != google_project_iam_custom_role.percolator["ping"].id]) == toset([
      "${google_service_account.percolator["batch"].member} roles/bigtable.viewer", "group:operators@example.com roles/bigtable.viewer",
      "${google_service_account.percolator["schema"].member} ${google_project_iam_custom_role.percolator["schema"].id}",
    ])
    error_message = "rights on the whole instance"
  }
  assert {
    condition     = length(distinct([for a in google_service_account.percolator : a.account_id])) == 4 && toset([for g in google_project_iam_member.telemetry : g.role]) == toset(["roles/logging.logWriter", "roles/monitoring.metricWriter", "roles/cloudtrace.agent"])
    error_message = "service accounts, and what they may tell the project"
  }
  assert {
    condition     = length(google_service_account_iam_member.schema) == 0
    error_message = "somebody acts as schema without having been named"
  }
}

run "a_worker_of_one_table" {
  variables {
    worker_tables  = ["words"]
    worker_members = { "serviceAccount:other@example.com" = ["documents"] }
  }
  assert {
    condition = { for who, member in { worker = google_service_account.percolator["worker"].member, other = "serviceAccount:other@example.com" } :
      who => toset([for g in google_bigtable_table_iam_member.percolator : g.table if g.member == member && g.role == "roles/bigtable.user"]) } == {
      worker = toset(["words", "percolator_journal", "percolator_meta"])
      other  = toset(["documents", "documents.by-author", "documents.by-url", "percolator_journal", "percolator_meta"])
    }
    error_message = "workers write other tables than theirs"
  }
  assert {
    condition     = contains([for g in google_secret_manager_secret_iam_member.tls : g.member if endswith(g.secret_id, "client-key")], "serviceAccount:other@example.com")
    error_message = "a worker without a certificate cannot call the oracle"
  }
}

run "who_acts_as_schema" {
  variables { schema_members = ["group:release@example.com"] }
  assert {
    condition     = { for m, g in google_service_account_iam_member.schema : m => g.role } == { "group:release@example.com" = "roles/iam.serviceAccountTokenCreator" }
    error_message = "nobody can impersonate schema"
  }
  assert {
    condition     = google_service_account_iam_member.schema["group:release@example.com"].service_account_id == google_service_account.percolator["schema"].name
    error_message = "somebody impersonates another service account"
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
  # An apply leaves the servers alone, so that they can be replaced one after the other; and a
  # replacement keeps name and address.
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
    condition     = output.environment.PERCOLATOR_TSO_SERVER_NAME == "tso.percolator.internal" && output.environment.PERCOLATOR_APP_PROFILE == "percolator" && output.environment.PERCOLATOR_BACKGROUND_APP_PROFILE == "percolator-batch"
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
    condition     = google_compute_firewall.oracle[0].source_tags == toset(["percolator-worker"]) && length(coalesce(google_compute_firewall.oracle[0].source_ranges, [])) == 0 && google_compute_firewall.oracle[0].target_tags == toset(["percolator-tso"])
    error_message = "others than the workers reach the oracle"
  }
  assert {
    condition     = one(google_compute_firewall.oracle[0].allow).ports == tolist(["7070"]) && one(google_compute_firewall.health.allow).ports == tolist(["7071"])
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
  assert {
    condition     = length(google_compute_firewall.oracle_accounts) == 0
    error_message = "a rule for nobody is one for everybody"
  }
}

run "pods_service_accounts_and_a_shared_network" {
  variables {
    client_tags             = []
    client_ranges           = ["10.8.0.0/14"]
    client_service_accounts = ["worker@elsewhere.iam.gserviceaccount.com"]
    network_project         = "host-project"
  }
  assert {
    condition     = google_compute_firewall.oracle[0].source_ranges == toset(["10.8.0.0/14"]) && length(coalesce(google_compute_firewall.oracle[0].source_tags, [])) == 0
    error_message = "pods do not reach the oracle"
  }
  assert {
    condition     = google_compute_firewall.oracle_accounts[0].source_service_accounts == toset(["worker@elsewhere.iam.gserviceaccount.com"]) && google_compute_firewall.oracle_accounts[0].target_service_accounts == toset([google_service_account.percolator["oracle"].email])
    error_message = "machines of a service account do not reach the oracle"
  }
  # One rule cannot have both; the provider finds out when it is too late.
  assert {
    condition     = length(coalesce(google_compute_firewall.oracle_accounts[0].target_tags, [])) + length(coalesce(google_compute_firewall.oracle[0].target_service_accounts, [])) == 0
    error_message = "tags and service accounts in one rule"
  }
  assert {
    condition     = toset([google_compute_firewall.oracle[0].project, google_compute_firewall.oracle_accounts[0].project, google_compute_firewall.health.project]) == toset(["host-project"])
    error_message = "rules in a project that does not have the network"
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
    condition     = [for g in google_bigtable_table_iam_member.percolator : "${g.table} ${g.role}" if g.member == google_service_account.percolator["oracle"].member] == ["percolator_meta roles/bigtable.user"]
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
  variables {
    kms_key  = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data"
    iam_wait = 0
  }
  assert {
    condition     = google_bigtable_instance.percolator.cluster[0].kms_key_name == var.kms_key && google_spanner_database.oracle[0].encryption_config[0].kms_key_name == var.kms_key
    error_message = "something is not encrypted by the key"
  }
  assert {
    condition     = toset(keys(google_kms_crypto_key_iam_member.encryption)) == toset(["compute-system", "gcp-sa-bigtable", "gcp-sa-secretmanager", "gcp-sa-spanner"])
    error_message = "a service cannot use the key"
  }
  assert {
    condition     = alltrue([for s in google_secret_manager_secret.tls : s.replication[0].user_managed[0].replicas[0].customer_managed_encryption[0].kms_key_name == var.kms_key])
    error_message = "a secret is not encrypted by the key"
  }
  assert {
    condition     = alltrue([for t in google_compute_instance_template.oracle : t.disk[0].disk_encryption_key[0].kms_key_self_link == var.kms_key])
    error_message = "a disk is not encrypted by the key"
  }
  # The instances wait for this one: see the test of the order in module_test.go.
  assert {
    condition     = toset(values(terraform_data.key_granted[0].triggers_replace)) == toset([for g in google_kms_crypto_key_iam_member.encryption : g.id])
    error_message = "nothing waits for the grants"
  }
}

run "own_keys_of_replicas" {
  command = plan
  variables {
    kms_key  = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data"
    replicas = { c2 = { zone = "europe-north1-a", kms_key = "projects/k/locations/europe-north1/keyRings/r/cryptoKeys/data" } }
  }
  assert {
    condition     = { for name, g in google_kms_crypto_key_iam_member.encryption : name => g.crypto_key_id if startswith(name, "gcp-sa-bigtable") } == { gcp-sa-bigtable = var.kms_key, "gcp-sa-bigtable c2" = var.replicas.c2.kms_key }
    error_message = "Bigtable cannot use the key of a replica"
  }
  assert {
    condition     = google_bigtable_instance.percolator.cluster[1].kms_key_name == var.replicas.c2.kms_key
    error_message = "a replica is not encrypted by its key"
  }
}

run "own_key_in_a_new_project" {
  variables {
    kms_key  = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/data"
    iam_wait = 0
    service_agents = {
      "bigtableadmin.googleapis.com" = "serviceAccount:service-1@gcp-sa-bigtable.iam.gserviceaccount.com"
      "spanner.googleapis.com"       = "serviceAccount:service-1@gcp-sa-spanner.iam.gserviceaccount.com"
      "secretmanager.googleapis.com" = "serviceAccount:service-1@gcp-sa-secretmanager.iam.gserviceaccount.com"
      "compute.googleapis.com"       = "serviceAccount:service-1@compute-system.iam.gserviceaccount.com"
    }
  }
  assert {
    condition     = { for k, g in google_kms_crypto_key_iam_member.encryption : k => g.member } == { for k in ["compute-system", "gcp-sa-bigtable", "gcp-sa-secretmanager", "gcp-sa-spanner"] : k => "serviceAccount:service-1@${k}.iam.gserviceaccount.com" }
    error_message = "the key is granted to others than the service agents that were made"
  }
  assert {
    condition     = length(data.google_project.this) == 0
    error_message = "the agents are known; the project need not be asked"
  }
}

run "before_there_is_an_image" {
  variables { oracle_image = null }
  assert {
    condition     = length(google_compute_instance_group_manager.oracle) + length(google_compute_instance_template.oracle) == 0 && length(google_compute_address.oracle) == 2 && length(google_bigtable_table.percolator) == 6
    error_message = "everything but the servers"
  }
  assert {
    condition = length(setintersection(keys(google_monitoring_alert_policy.percolator), [
      "PercolatorOracleWithoutLeader", "PercolatorOracleNoSpare", "PercolatorNoWorker",
    ])) == 0 && length(google_monitoring_alert_policy.percolator) > 10
    error_message = "somebody is called because nothing runs that cannot run yet"
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
    condition     = toset(keys(google_monitoring_alert_policy.ground)) == toset(["BigtableAtMaxNodes percolator-c1", "BigtableCPU", "BigtableHottestNode", "BigtableStorage", "SpannerCPU"])
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
      "PercolatorConflictRate", "PercolatorCollectionLag", "PercolatorLargeRows",
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

run "alerts_as_google_recommends" {
  variables {
    replicas = { c2 = { zone = "europe-north1-a", min_nodes = 2, max_nodes = 2 } }
  }
  assert {
    condition = { for name, p in google_monitoring_alert_policy.ground : name => p.conditions[0].condition_threshold[0].threshold_value if startswith(name, "Bigtable") } == {
      "BigtableAtMaxNodes percolator-c1" = 2.5, BigtableCPU = 0.7, BigtableHottestNode = 0.9, BigtableStorage = 0.7
    }
    error_message = "thresholds, or an alert on the nodes of a cluster that cannot grow"
  }
  assert {
    condition = (google_monitoring_alert_policy.errors[0].conditions[0].condition_threshold[0].aggregations[0].group_by_fields ==
    google_monitoring_alert_policy.errors[0].conditions[0].condition_threshold[0].denominator_aggregations[0].group_by_fields)
    error_message = "errors and requests are not of the same method"
  }
  assert {
    condition     = strcontains(google_monitoring_alert_policy.backups[0].conditions[0].condition_matched_log[0].filter, "/instances/percolator/\"") && google_monitoring_alert_policy.backups[0].alert_strategy[0].notification_rate_limit[0].period == "3600s"
    error_message = "an alert on a log entry has to have a rate limit"
  }
}

run "without_alerts" {
  variables { alerts = false }
  assert {
    condition     = length(google_monitoring_alert_policy.percolator) + length(google_monitoring_alert_policy.ground) + length(google_monitoring_alert_policy.errors) + length(google_monitoring_alert_policy.backups) == 0
    error_message = "alerts"
  }
}

run "protection_can_be_taken_away" {
  variables { deletion_protection = false }
  assert {
    condition     = !google_bigtable_instance.percolator.deletion_protection && !google_spanner_database.oracle[0].enable_drop_protection && alltrue([for t in google_bigtable_table.percolator : t.deletion_protection == "UNPROTECTED"])
    error_message = "a destroy would fail"
  }
  assert {
    condition     = google_bigtable_instance.percolator.force_destroy && google_spanner_instance.oracle[0].force_destroy
    error_message = "a destroy would fail as soon as there are backups"
  }
}

run "without_backups" {
  variables { backup_days = 0 }
  assert {
    condition     = alltrue([for t in google_bigtable_table.percolator : one(t.automated_backup_policy).retention_period == "0" && one(t.automated_backup_policy).frequency == "0"])
    error_message = "backups that were on before would stay on"
  }
}

run "the_quota_is_below_max_nodes" {
  command = plan
  variables {
    min_nodes = 4
    max_nodes = 31
  }
  expect_failures = [check.quota]
}

run "the_quota_of_another_zone" {
  command = plan
  variables { zone = "europe-west1-c" }
  expect_failures = [check.quota]
}

run "the_quota_is_not_there" {
  command = plan
  variables { zone = "europe-west1-x" }
  expect_failures = [check.quota]
}
