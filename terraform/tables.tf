# The tables of the schema file, of their indexes, percolator_meta and percolator_journal, as
# percolator.CreateSchema would make them: it finds them and stores the schema.
#
# Only the journal, of whose cells the newest version counts, has a google_bigtable_gc_policy. An age policy compares a cell's timestamp, which
# is the oracle's, with the wall clock, and a count of versions knows nothing of transactions:
# either would erase locks, records of commits or data that a snapshot still needs
# (docs/internals/PROTOCOL.md). The collector in the workers removes what is old. The cells of percolator_meta
# have one version each.

module "tables" {
  source      = "./modules/tables"
  schema_file = var.schema_file
}

resource "google_bigtable_table" "percolator" {
  for_each = module.tables.tables

  project             = var.project
  instance_name       = google_bigtable_instance.percolator.name
  name                = each.key
  split_keys          = each.value.splits
  deletion_protection = var.deletion_protection ? "PROTECTED" : "UNPROTECTED"

  dynamic "column_family" {
    for_each = each.value.families
    content {
      family = column_family.value
    }
  }

  # Bigtable backs up every table once a day. To turn that off it has to be told both zeroes:
  # without the block the provider leaves the policy as it is.
  automated_backup_policy {
    retention_period = var.backup_days == 0 ? "0" : "${24 * var.backup_days}h0m0s"
    frequency        = var.backup_days == 0 ? "0" : "24h0m0s"
  }

  lifecycle {
    # Splits matter when a table is created. Terraform would destroy the table to change them.
    ignore_changes = [split_keys]
  }
}

resource "google_bigtable_gc_policy" "journal" {
  for_each = { for name, t in module.tables.tables : name => t if t.versions > 0 }

  project         = var.project
  instance_name   = google_bigtable_instance.percolator.name
  table           = google_bigtable_table.percolator[each.key].name
  column_family   = one(each.value.families)
  deletion_policy = "ABANDON"

  max_version {
    number = each.value.versions
  }
}
