# Who has which role on the Bigtable instance and on each table, as data. The module has no
# provider, so a test evaluates it on a machine that has never seen Google Cloud, and runs every
# identity against a stand-in with these permissions and no others.

locals {
  # The permissions of Google's roles are those of its page "Bigtable roles and permissions", as of
  # April 2026, as far as Percolator's requests need any of them.
  roles = jsondecode(file("${path.module}/roles.json"))

  meta   = "percolator_meta"
  shared = concat([local.meta], var.journaled ? ["percolator_journal"] : [])

  writers = merge(
    { worker = var.worker_tables, batch = ["*"] },
    var.worker_members,
    { for m in var.operator_members : m => ["*"] },
  )
  named = distinct(flatten(concat(values(local.writers), values(var.reader_members))))

  # An index is written and read with its table, so a table stands for both.
  with_indexes = {
    for table in local.named : table => [
      for name in var.tables : name if table == "*" || name == table || startswith(name, "${table}.")
    ]
  }

  # Every client reads percolator_meta: schema, GC watermark, restores. Every client that runs
  # transactions writes it as well, since holds, reports, and the collector's lease and position are
  # there. So does the identity that stores the schema. Every commit has its entry in
  # percolator_journal first, and who lists locks or notifications reads that. The oracle compares
  # its record with what transactions have left in percolator_meta, and writes it only if it keeps
  # the record there.
  on_tables = concat(
    flatten([
      for who, tables in local.writers : [
        for table in distinct(concat(flatten([for t in tables : local.with_indexes[t]]), local.shared)) :
        { who = who, role = "roles/bigtable.user", table = table }
      ]
    ]),
    flatten([
      for who, tables in var.reader_members : [
        for table in distinct(concat(flatten([for t in tables : local.with_indexes[t]]), local.shared)) :
        { who = who, role = "roles/bigtable.reader", table = table }
      ]
    ]),
    [
      { who = "oracle", role = var.oracle_store == "spanner" ? "roles/bigtable.reader" : "roles/bigtable.user", table = local.meta },
      { who = "schema", role = "roles/bigtable.user", table = local.meta },
    ],
  )

  # Google's client calls PingAndWarm before it uses a connection. That takes a permission of the
  # instance, which a role on a table does not give, and which bigtable.viewer does not have.
  # percolator check looks at tables, families and app profiles.
  on_instance = concat(
    [for who in distinct(local.on_tables[*].who) : { who = who, role = "ping" }],
    [for who in concat(["batch"], var.operator_members) : { who = who, role = "roles/bigtable.viewer" }],
    [{ who = "schema", role = "schema" }],
  )

  permissions = merge({ for name, r in local.roles.custom : name => r.permissions }, local.roles.predefined)

  # By identity: what it may do where.
  identities = {
    for who in distinct(local.on_tables[*].who) : who => concat(
      [for g in local.on_instance : { on = "instance", role = g.role, permissions = local.permissions[g.role] } if g.who == who],
      [for g in local.on_tables : { on = "tables/${g.table}", role = g.role, permissions = local.permissions[g.role] } if g.who == who],
    )
  }

  unknown = setsubtract(local.named, concat(["*"], var.tables))
}
