// Package snippet is what surrounds a piece of Go in the documentation: here, the function that
// Update runs.
package snippet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// What a piece may use without saying where it comes from.
var (
	_ = errors.Join
	_ = fmt.Sprint
	_ = time.Second
	_ = tso.At

	balance = percolator.Int64("accounts", "balance")
	duty    = percolator.String("doctors", "duty")
	email   = percolator.String("users", "email")
)

func inTransaction(ctx context.Context, tx *percolator.Txn) error {
	// SNIPPET
	return nil
}
