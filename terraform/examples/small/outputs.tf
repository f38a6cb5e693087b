output "environment" {
  description = "For programs, workers and commands."
  value       = module.percolator.environment
}

output "tables" {
  description = "Tables that were created."
  value       = module.percolator.tables
}

output "oracle_rollout" {
  description = "Commands that bring the oracle's server up to date after an apply."
  value       = module.percolator.oracle_rollout
}
