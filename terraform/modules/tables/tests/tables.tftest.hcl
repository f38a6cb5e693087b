# No provider is needed: terraform -chdir=terraform/modules/tables test

run "one_table_each_one_for_each_index_and_the_meta_table" {
  command = plan
  variables { schema_file = "tests/testdata/all.yaml" }

  assert {
    condition     = toset(keys(output.tables)) == toset(["documents", "documents.by-author", "documents.by-url", "percolator_journal", "percolator_meta", "words"])
    error_message = "tables: ${join(", ", keys(output.tables))}"
  }
  assert {
    condition     = alltrue([for n in output.names : output.tables[n].families == ["data", "lock", "notify", "write"]])
    error_message = "a table or an index lacks one of the four families"
  }
  assert {
    condition     = output.tables["percolator_meta"].families == ["meta", "oracle"]
    error_message = "families of percolator_meta"
  }
  assert {
    condition     = output.tables["percolator_journal"].families == ["journal"] && output.journaled
    error_message = "families of percolator_journal"
  }
  assert {
    condition     = { for n, t in output.tables : n => t.versions if t.versions != 0 } == { percolator_journal = 1 }
    error_message = "Bigtable removes versions of the journal alone"
  }
  assert {
    condition     = { for n, t in output.tables : n => join(",", t.splits) if length(t.splits) > 0 } == { documents = "g,p", percolator_journal = "\u0010, ,0,@" }
    error_message = "splits are those of the table, and of no index"
  }
}

run "without_a_journal" {
  command = plan
  variables { schema_file = "tests/testdata/unjournaled.yaml" }
  assert {
    condition     = toset(keys(output.tables)) == toset(["percolator_meta", "words"]) && !output.journaled
    error_message = "tables: ${join(", ", keys(output.tables))}"
  }
}

run "json_is_yaml" {
  command = plan
  variables { schema_file = "tests/testdata/json.yaml" }
  assert {
    condition     = output.names == tolist(["words"])
    error_message = "names: ${join(", ", output.names)}"
  }
}

run "a_misspelt_field_is_refused" {
  command = plan
  variables { schema_file = "tests/testdata/misspelt.yaml" }
  expect_failures = [output.tables]
}

run "a_table_with_a_dot_is_refused" {
  command = plan
  variables { schema_file = "tests/testdata/dot.yaml" }
  expect_failures = [output.tables]
}

run "the_meta_table_is_not_the_users" {
  command = plan
  variables { schema_file = "tests/testdata/meta.yaml" }
  expect_failures = [output.tables]
}

run "an_index_that_is_named_twice_is_refused" {
  command = plan
  variables { schema_file = "tests/testdata/twice.yaml" }
  expect_failures = [output.tables]
}

run "split_keys_in_quotes_are_refused" {
  command = plan
  variables { schema_file = "tests/testdata/quoted.yaml" }
  expect_failures = [output.tables]
}

run "a_file_without_tables_is_refused" {
  command = plan
  variables { schema_file = "tests/testdata/none.yaml" }
  expect_failures = [var.schema_file]
}

run "a_file_that_is_not_there_is_refused" {
  command = plan
  variables { schema_file = "tests/testdata/nowhere.yaml" }
  expect_failures = [var.schema_file]
}
