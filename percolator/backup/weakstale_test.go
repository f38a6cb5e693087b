package backup_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A process that has not heard yet that the journal was turned off exports the weak notifications
// that no entry names.
func TestWeakNotificationsWithoutAnEntry(t *testing.T) {
	t.Parallel()
	schema := func(without bool) *percolator.Schema {
		return &percolator.Schema{
			Tables:         []percolator.Table{{Name: "t", Weak: []string{"poke"}}},
			Timing:         percolator.Timing{MetaMaxAge: time.Minute},
			DisableJournal: without,
		}
	}
	env := percolatortest.New(t, schema(false))
	ctx := fixture.Context(t)
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, schema(true), env.Options()...))
	knows := env.NewClient()
	fixture.Must(t, fixture.Update(ctx, knows, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) }))
	ts, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	n := 0
	for _, err := range transfer.ExportWeak(ctx, env.Client.Engine(), ts, "t", model.All()) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d rows are exported", n)
	}
}
