output "environment" {
  description = "For programs, workers and commands."
  value       = module.percolator.environment
}

output "tables" {
  description = "Tables that were created."
  value       = module.percolator.tables
}

output "spanner_database" {
  description = "Database of the oracle's record, for percolator init --spanner."
  value       = module.percolator.spanner_database
}

output "oracle_secrets" {
  description = "Secrets that wait for certificates."
  value       = module.percolator.oracle_secrets
}

output "oracle_rollout" {
  description = "Commands that bring the oracle's servers up to date, one after the other."
  value       = module.percolator.oracle_rollout
}

output "service_accounts" {
  description = "Service accounts by what they are for."
  value       = module.percolator.service_accounts
}

output "image_repository" {
  description = "Where the oracle's image is pushed to."
  value       = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.percolator.repository_id}"
}
