output "tables" {
  description = "Families, initial split keys and number of versions (0: all) of every Bigtable table, by its name: the tables of the schema, TABLE.INDEX for each index, percolator_meta and percolator_journal."
  value       = { for name, t in local.tables : name => t[0] }

  precondition {
    condition     = length(local.unknown_fields) == 0
    error_message = "The schema file has fields that are not known: ${join(", ", local.unknown_fields)}."
  }
  precondition {
    condition     = length(local.bad_names) == 0
    error_message = "Not names of tables: ${join(", ", local.bad_names)}. At most 50 letters, digits, - and _, not percolator_meta or percolator_journal; TABLE.INDEX may have 50 as well."
  }
  precondition {
    condition     = length(distinct(local.names)) == length(local.names)
    error_message = "The schema file names a table or an index twice."
  }
  precondition {
    condition     = length(local.quoted_splits) == 0
    error_message = "Split keys in quotes, which are bytes outside UTF-8, cannot be created here: let `percolator schema apply` create that table, and import it."
  }
}

output "names" {
  description = "Names of the tables of the schema and of its indexes, without percolator_meta and percolator_journal."
  value       = sort(local.names)
}

output "journaled" {
  description = "Whether there is a percolator_journal."
  value       = local.journaled
}
