output "instance" {
  description = "Bigtable instance, for Config.Instance and --instance."
  value       = google_bigtable_instance.percolator.name
}

output "clusters" {
  description = "Zone, key and nodes of every cluster of the instance, by its name: what backups, replication and restores are told."
  value       = local.clusters
}

output "serving_cluster" {
  description = "Name of the cluster that takes transactions."
  value       = local.cluster
}

output "app_profile" {
  description = "App profile of transactions, for Config.AppProfile and --app-profile."
  value       = google_bigtable_app_profile.percolator["percolator"].app_profile_id
}

output "batch_app_profile" {
  description = "App profile of scans, backups, collection and backfills, for Config.BackgroundAppProfile and --background-app-profile: of low priority, which Bigtable is likely to run after transactions."
  value       = google_bigtable_app_profile.percolator["percolator-batch"].app_profile_id
}

output "tables" {
  description = "Names of all Bigtable tables that were created."
  value       = sort([for t in google_bigtable_table.percolator : t.name])
}

output "spanner_database" {
  description = "Database of the oracle's record, for --spanner; null if the record is in Bigtable."
  value       = local.spanner_database
}

output "oracle_addresses" {
  description = "host:port of all servers of the oracle, separated by commas, for --tso."
  value       = join(",", [for z in sort(var.oracle_zones) : "${google_compute_address.oracle[z].address}:${local.oracle_port}"])
}

output "oracle_secrets" {
  description = "Secrets that wait for certificates, by what belongs into them; empty with alts."
  value       = { for k, s in google_secret_manager_secret.tls : k => s.secret_id }
}

output "oracle_rollout" {
  description = "Commands that replace the servers by those of the newest apply. Run one, see that percolator tso status shows the new server standing by, then the next."
  value = [for z in sort(tolist(local.servers)) :
    "gcloud compute instance-groups managed update-instances ${google_compute_instance_group_manager.oracle[z].name} --project=${var.project} --zone=${z} --instances=${google_compute_per_instance_config.oracle[z].name} --minimal-action=replace"
  ]
}

output "service_accounts" {
  description = "Service accounts by what they are for: worker, batch, oracle, schema."
  value       = { for k, a in google_service_account.percolator : k => a.email }
}

output "environment" {
  description = "Environment of programs, workers and commands; the certificates' files are up to you."
  value = merge(
    {
      PERCOLATOR_PROJECT                = var.project
      PERCOLATOR_INSTANCE               = google_bigtable_instance.percolator.name
      PERCOLATOR_APP_PROFILE            = google_bigtable_app_profile.percolator["percolator"].app_profile_id
      PERCOLATOR_BACKGROUND_APP_PROFILE = google_bigtable_app_profile.percolator["percolator-batch"].app_profile_id
      PERCOLATOR_TSO_ADDR               = join(",", [for z in sort(var.oracle_zones) : "${google_compute_address.oracle[z].address}:${local.oracle_port}"])
    },
    var.oracle_security == "mtls" ? { PERCOLATOR_TSO_SERVER_NAME = var.oracle_server_name } : { PERCOLATOR_TSO_ALTS = "true" },
  )
}
