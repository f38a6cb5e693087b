# No provider is needed: terraform -chdir=terraform/modules/grants test

variables {
  tables           = ["documents", "documents.by-url", "documents-2", "words"]
  reader_members   = { "group:readers@example.com" = ["documents"] }
  operator_members = ["group:operators@example.com"]
}

run "who_may_do_what" {
  command = plan

  assert {
    condition     = toset(keys(output.identities)) == toset(["worker", "batch", "oracle", "schema", "group:readers@example.com", "group:operators@example.com"])
    error_message = "identities: ${join(", ", keys(output.identities))}"
  }
  assert {
    condition = alltrue([for who, grants in output.identities : anytrue([
      for g in grants : g.on == "instance" && contains(g.permissions, "bigtable.instances.ping")
    ])])
    error_message = "an identity cannot open a connection"
  }
  # On the instance nobody has a right to data, or to change anything but the schema.
  assert {
    condition = alltrue([for g in flatten(values(output.identities)) : length(setsubtract(g.permissions, [
      "bigtable.appProfiles.get", "bigtable.appProfiles.list", "bigtable.clusters.get", "bigtable.clusters.list", "bigtable.instances.get",
      "bigtable.instances.list", "bigtable.instances.ping", "bigtable.tables.get", "bigtable.tables.list",
    ])) == (g.role == "schema" ? 2 : 0) if g.on == "instance"])
    error_message = "too much on the instance"
  }
  assert {
    condition = { for who, grants in output.identities : who => toset([for g in grants : g.on if contains(g.permissions, "bigtable.tables.mutateRows")]) } == {
      worker                        = toset(["tables/documents", "tables/documents.by-url", "tables/documents-2", "tables/words", "tables/percolator_meta", "tables/percolator_journal"])
      batch                         = toset(["tables/documents", "tables/documents.by-url", "tables/documents-2", "tables/words", "tables/percolator_meta", "tables/percolator_journal"])
      oracle                        = toset([])
      schema                        = toset(["tables/percolator_meta"])
      "group:readers@example.com"   = toset([])
      "group:operators@example.com" = toset(["tables/documents", "tables/documents.by-url", "tables/documents-2", "tables/words", "tables/percolator_meta", "tables/percolator_journal"])
    }
    error_message = "who writes what"
  }
  assert {
    condition     = toset([for g in output.identities["group:readers@example.com"] : g.on if contains(g.permissions, "bigtable.tables.readRows")]) == toset(["tables/documents", "tables/documents.by-url", "tables/percolator_meta", "tables/percolator_journal"])
    error_message = "a reader of a table reads its indexes, and no table whose name only begins alike"
  }
  assert {
    condition     = toset([for g in output.identities["oracle"] : "${g.on} ${g.role}"]) == toset(["instance ping", "tables/percolator_meta roles/bigtable.reader"])
    error_message = "the oracle"
  }
  assert {
    condition     = length(output.on_tables) + length(output.on_instance) == length(flatten(values(output.identities)))
    error_message = "grants that are no identity's"
  }
}

run "the_oracles_record_in_bigtable" {
  command = plan
  variables { oracle_store = "bigtable" }
  assert {
    condition     = toset([for g in output.identities["oracle"] : "${g.on} ${g.role}"]) == toset(["instance ping", "tables/percolator_meta roles/bigtable.user"])
    error_message = "the oracle cannot write its record"
  }
}

run "workers_apart" {
  command = plan
  variables {
    worker_tables  = ["words"]
    worker_members = { "serviceAccount:a@example.com" = ["documents", "words"], "group:operators@example.com" = ["words"] }
  }
  assert {
    condition     = toset([for g in output.identities["worker"] : g.on]) == toset(["instance", "tables/words", "tables/percolator_meta", "tables/percolator_journal"])
    error_message = "a worker of one table"
  }
  assert {
    condition     = toset([for g in output.identities["serviceAccount:a@example.com"] : g.on]) == toset(["instance", "tables/documents", "tables/documents.by-url", "tables/words", "tables/percolator_meta", "tables/percolator_journal"])
    error_message = "a worker of two tables"
  }
  assert {
    condition     = contains([for g in output.identities["group:operators@example.com"] : g.on], "tables/documents")
    error_message = "an operator has every table, whatever else he is"
  }
}

run "a_table_that_is_not_there" {
  command = plan
  variables { worker_tables = ["word"] }
  expect_failures = [output.on_tables]
}
