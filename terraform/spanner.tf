# The oracle's record: two rows of a table, written about once a second, and the ids of open
# sessions. The statements in ddl/ are those of spannerstore.Statements; a test compares them.
# Terraform would replace a database whose statements change, and drop protection keeps it from
# that: append files, as the Go code appends statements.

locals {
  spanner = var.oracle_store == "spanner" ? 1 : 0
  ddl     = [for f in sort(fileset("${path.module}/ddl", "*.sql")) : trimspace(file("${path.module}/ddl/${f}"))]

  # The full name, as --spanner takes it.
  spanner_database = local.spanner == 0 ? null : "projects/${var.project}/instances/${google_spanner_instance.oracle[0].name}/databases/${google_spanner_database.oracle[0].name}"
}

resource "google_spanner_instance" "oracle" {
  count = local.spanner

  project          = var.project
  name             = "${var.name}-tso"
  display_name     = "${var.name}-tso"
  config           = "regional-${var.region}"
  processing_units = var.spanner_processing_units
  # As with Bigtable, an instance that has backups is not deleted.
  force_destroy = !var.deletion_protection
  labels        = var.labels

  depends_on = [terraform_data.key_granted]
}

resource "google_spanner_database" "oracle" {
  count = local.spanner

  project  = var.project
  instance = google_spanner_instance.oracle[0].name
  name     = "oracle"
  ddl      = local.ddl

  # An old record is worse than none: its mark has to be raised after a restore (docs/ORACLE.md). To
  # look into the past is useful.
  version_retention_period = "7d"

  deletion_protection    = var.deletion_protection
  enable_drop_protection = var.deletion_protection

  dynamic "encryption_config" {
    for_each = var.kms_key == null ? [] : [var.kms_key]
    content {
      kms_key_name = encryption_config.value
    }
  }
}

resource "google_spanner_database_iam_member" "oracle" {
  for_each = local.spanner == 0 ? {} : {
    oracle = google_service_account.percolator["oracle"].member
    schema = google_service_account.percolator["schema"].member
  }

  project  = var.project
  instance = google_spanner_instance.oracle[0].name
  database = google_spanner_database.oracle[0].name
  role     = "roles/spanner.databaseUser"
  member   = each.value
}

# percolator init looks whether the database is there.
resource "google_spanner_instance_iam_member" "schema" {
  count = local.spanner

  project  = var.project
  instance = google_spanner_instance.oracle[0].name
  role     = "roles/spanner.viewer"
  member   = google_service_account.percolator["schema"].member
}

resource "google_spanner_database_iam_member" "operator" {
  for_each = toset(local.spanner == 0 ? [] : var.operator_members)

  project  = var.project
  instance = google_spanner_instance.oracle[0].name
  database = google_spanner_database.oracle[0].name
  role     = "roles/spanner.databaseReader"
  member   = each.value
}
