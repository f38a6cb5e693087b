package workload

import "github.com/gopercolator/percolator/emulator_test/internal/history"

// AlsoWatched is what others watch, who begin where a consumer of Watched has come to.
var AlsoWatched = []history.Column{{Table: lists}, {Table: registers}, {Table: ring}, {Table: sheets}}

// Watched is what a consumer watches: values that expire, ranges that are deleted, transactions
// that fill more than a batch, and one column of a table.
var Watched = []history.Column{{Table: permits}, {Table: archive}, {Table: sheets}, {Table: bank, Name: "balance"}}
