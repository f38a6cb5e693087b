# Rights on Bigtable, by table wherever Bigtable has it so. Nobody here can delete a table, or grant
# anything. modules/grants says who has which role, and why.

module "grants" {
  source = "./modules/grants"

  tables           = module.tables.names
  worker_tables    = var.worker_tables
  worker_members   = var.worker_members
  reader_members   = var.reader_members
  operator_members = var.operator_members
  oracle_store     = var.oracle_store
  journaled        = module.tables.journaled
}

resource "google_project_iam_custom_role" "percolator" {
  for_each = module.grants.custom_roles

  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_${each.key}"
  title       = "${var.name} ${each.key}"
  description = each.value.description
  permissions = each.value.permissions
}

locals {
  # Grants name service accounts of this module by what they are for, all others as members.
  members = merge(
    { for who in keys(module.grants.identities) : who => who },
    { for who, account in google_service_account.percolator : who => account.member },
  )
  custom_roles = { for name, role in google_project_iam_custom_role.percolator : name => role.id }
}

resource "google_bigtable_table_iam_member" "percolator" {
  for_each = module.grants.on_tables

  project       = var.project
  instance_name = google_bigtable_instance.percolator.name
  table         = google_bigtable_table.percolator[each.value.table].name
  role          = each.value.role
  member        = local.members[each.value.who]
}

resource "google_bigtable_instance_iam_member" "percolator" {
  for_each = module.grants.on_instance

  project  = var.project
  instance = google_bigtable_instance.percolator.name
  role     = lookup(local.custom_roles, each.value.role, each.value.role)
  member   = local.members[each.value.who]
}

# Who applies a schema does so as the service account schema, for as long as it takes.
resource "google_service_account_iam_member" "schema" {
  for_each = toset(var.schema_members)

  service_account_id = google_service_account.percolator["schema"].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = each.value
}
