package transfer_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
)

// TestSparseExport: an export comes to its end of a table of which few rows existed then.
func TestSparseExport(t *testing.T) {
	t.Parallel()
	const sparseRows = 60 // that a request passes over
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t, fixture.CutReads(sparseRows))
	fixture.Put(t, ctx, env.Client, fixture.Key(1), "c", "v", fixture.Key(10*sparseRows-1), "c", "v")
	at, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	fixture.Fill(t, ctx, env, "t", 10*sparseRows)
	got := ""
	for row, err := range transfer.ExportRows(ctx, env.Client.Engine(), at, "t", percolator.All()) {
		fixture.Must(t, err)
		got += row.Row + " "
	}
	if want := fixture.Key(1) + " " + fixture.Key(10*sparseRows-1) + " "; got != want {
		t.Errorf("exported %q, want %q", got, want)
	}
	for row, err := range transfer.ExportWeak(ctx, env.Client.Engine(), at, "t", percolator.All()) {
		t.Errorf("a weak notification of %q, %v", row.Row, err)
	}
}
