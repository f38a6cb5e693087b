// Package snippet is what surrounds a piece of Go in the documentation: here, the body of a test.
package snippet

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var schema = &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}}

func transfer(_ context.Context, tx *percolator.Txn) error {
	return percolator.Int64("accounts", "balance").Set(tx, "Bob", 3)
}

func inTest(t *testing.T) {
	ctx := t.Context()
	// SNIPPET
	if err != nil {
		t.Fatal(err)
	}
}
