// Package snippet is what surrounds a piece of Go in the documentation: here, the body of a
// function.
package snippet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/schemafile"
	"github.com/gopercolator/percolator/tso"
)

// What a piece may use without saying where it comes from.
var (
	_ = errors.Join
	_ = fmt.Sprint
	_ = slog.Default
	_ = os.ReadFile
	_ = time.Second
	_ = tso.At
	_ = observers.NewRegistry
	_ = admin.New
	_ = schemafile.Parse
)

func body(ctx context.Context, client *percolator.Client) error {
	// SNIPPET
	return nil
}
