# Which Bigtable tables a schema needs. It is a module without a provider, so that the rules can be
# evaluated, and compared with what percolator.CreateSchema does, on a machine that has never seen
# Google Cloud.

locals {
  schema   = yamldecode(file(var.schema_file))
  families = jsondecode(file("${path.module}/families.json"))

  # One table each, and one for each index. Splits belong to the table of the rows.
  named = concat(
    [for t in local.schema.tables : { name = t.name, splits = try(t.splits, []) }],
    flatten([for t in local.schema.tables : [for i in try(t.indexes, []) : { name = "${t.name}.${i.name}", splits = [] }]]),
  )
  names = [for t in local.named : t.name]

  # Of a cell of the journal the newest version counts: Bigtable may remove the others. Nowhere else.
  journaled = !try(local.schema.disableJournal, false)

  tables = merge(
    { for t in local.named : t.name => { families = local.families.data, splits = t.splits, versions = 0 }... },
    { percolator_meta = [{ families = local.families.meta, splits = [], versions = 0 }] },
    { for name in local.journaled ? ["percolator_journal"] : [] :
    name => [{ families = local.families.journal, splits = ["\u0010", " ", "0", "@"], versions = 1 }] },
  )

  # What the command would refuse as well: a misspelt field must not pass here and fail there.
  unknown_fields = distinct(concat(
    tolist(setsubtract(keys(local.schema), ["tables", "timing", "disableJournal"])),
    flatten([for t in local.schema.tables : tolist(setsubtract(keys(t), ["name", "observed", "weak", "queue", "indexes", "splits", "columns", "ttl", "notifyExpired"]))]),
    flatten([for t in local.schema.tables : [for i in try(t.indexes, []) : tolist(setsubtract(keys(i), ["name", "column", "unique"]))]]),
    flatten([for t in local.schema.tables : [for c in try(t.columns, []) : tolist(setsubtract(keys(c), ["name", "type", "ttl", "notifyExpired"]))]]),
  ))

  # The dot separates a table from its index.
  bad_names = concat(
    [for t in local.schema.tables : t.name if !can(regex("^[_a-zA-Z0-9][-_a-zA-Z0-9]{0,49}$", t.name)) || contains(["percolator_meta", "percolator_journal"], t.name)],
    [for n in local.names : n if !can(regex("^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$", n))],
  )
  quoted_splits = flatten([for t in local.named : [for s in t.splits : s if startswith(s, "\"")]])
}
