output "instance" {
  description = "Instance name, for Config.Instance and --instance."
  value       = google_bigtable_instance.percolator.name
}

output "app_profile" {
  description = "App profile, for Config.AppProfile and --app-profile."
  value       = google_bigtable_app_profile.transactions.app_profile_id
}
