# Rights on Bigtable, by table wherever Bigtable has it so. Nobody here can delete a table, or grant anything.

locals {
  every_table = keys(module.tables.tables)

  # Whoever runs transactions writes its own tables, and percolator_meta: holds, the collector's lease, reports.
  worker_grants = {
    for pair in setproduct(local.every_table, keys(local.worker_members)) : "${pair[0]} ${pair[1]}" => { table = pair[0], member = local.worker_members[pair[1]] }
  }
  reader_grants = {
    for pair in setproduct(local.every_table, var.reader_members) : "${pair[0]} ${pair[1]}" => { table = pair[0], member = pair[1] }
  }
}

resource "google_bigtable_table_iam_member" "worker" {
  for_each = local.worker_grants

  project       = var.project
  instance_name = google_bigtable_instance.percolator.name
  table         = google_bigtable_table.percolator[each.value.table].name
  role          = "roles/bigtable.user"
  member        = each.value.member
}

resource "google_bigtable_table_iam_member" "reader" {
  for_each = local.reader_grants

  project       = var.project
  instance_name = google_bigtable_instance.percolator.name
  table         = google_bigtable_table.percolator[each.value.table].name
  role          = "roles/bigtable.reader"
  member        = each.value.member
}

# The oracle compares its record with what transactions have left in percolator_meta, and keeps the record there if it is not in Spanner.
# It sees no table of the users.
resource "google_bigtable_table_iam_member" "oracle" {
  project       = var.project
  instance_name = google_bigtable_instance.percolator.name
  table         = google_bigtable_table.percolator["percolator_meta"].name
  role          = var.oracle_store == "spanner" ? "roles/bigtable.reader" : "roles/bigtable.user"
  member        = google_service_account.percolator["oracle"].member
}

# Whoever applies a schema stores it in percolator_meta …
resource "google_bigtable_table_iam_member" "schema" {
  project       = var.project
  instance_name = google_bigtable_instance.percolator.name
  table         = google_bigtable_table.percolator["percolator_meta"].name
  role          = "roles/bigtable.user"
  member        = google_service_account.percolator["schema"].member
}

# … and finds or creates tables and families: permissions of the instance, without those to read rows or to delete.
resource "google_project_iam_custom_role" "schema" {
  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_schema"
  title       = "${var.name} schema"
  description = "Creates Bigtable tables and column families. Neither reads rows nor deletes tables."
  permissions = ["bigtable.instances.get", "bigtable.tables.create", "bigtable.tables.get", "bigtable.tables.list", "bigtable.tables.update"]
}

resource "google_bigtable_instance_iam_member" "schema" {
  project  = var.project
  instance = google_bigtable_instance.percolator.name
  role     = google_project_iam_custom_role.schema.id
  member   = google_service_account.percolator["schema"].member
}

# percolator check looks at tables, families and app profiles; viewers see no rows.
resource "google_bigtable_instance_iam_member" "viewer" {
  for_each = merge({ batch = google_service_account.percolator["batch"].member }, { for m in var.operator_members : m => m })

  project  = var.project
  instance = google_bigtable_instance.percolator.name
  role     = "roles/bigtable.viewer"
  member   = each.value
}
