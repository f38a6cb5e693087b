output "on_tables" {
  description = "Grants on tables, by table, identity and role. Identities are worker, batch, oracle, schema, and members as they were given."
  value       = { for g in local.on_tables : "${g.table} ${g.who} ${g.role}" => g }

  precondition {
    condition     = length(local.unknown) == 0
    error_message = "Members are given tables that the schema file does not have: ${join(", ", local.unknown)}."
  }
}

output "on_instance" {
  description = "Grants on the instance, by identity and role: one of Google's, or one of custom_roles by its name."
  value       = { for g in local.on_instance : "${g.who} ${g.role}" => g }
}

output "custom_roles" {
  description = "Description and permissions of the roles that are not Google's."
  value       = local.roles.custom
}

output "identities" {
  description = "What every identity may do: a list of roles with their permissions, each on \"instance\" or on \"tables/NAME\"."
  value       = local.identities
}
