package gc_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestWhatEndedDuringARunIsErased: a value expires at or below the watermark, while a run that has
// seen it commits above. Its acknowledgment keeps what is left of the cell, and its entry leads
// there (J13).
func TestWhatEndedDuringARunIsErased(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]percolator.ColumnSchema{"unseen": {}, "notified": {NotifyExpired: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testWhatEndedDuringARun(t, column) })
		})
	}
}

func testWhatEndedDuringARun(t *testing.T, column percolator.ColumnSchema) {
	column.Name, column.TTL = "seen", time.Second
	at := percolator.Cell{Table: "brief", Row: "r", Column: "seen"}
	var run *percolator.Txn
	var env *percolatortest.Env
	between(t, func(ctx context.Context, e *percolatortest.Env) {
		env = e
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(at, []byte("1")) }))
		run = fixture.MustBegin(t, ctx, env.Client)
		ack, err := (*commit.Txn)(run).Acknowledge(ctx, at, "o", []string{"o"})
		if fixture.Must(t, err); !ack.Run || ack.Deleted {
			t.Fatalf("%+v: want a run for a value", ack)
		}
		env.Clock.Advance(2 * time.Second)
	}, func(ctx context.Context, env *percolatortest.Env) {
		fixture.MustCommit(t, ctx, run)
	}, func(ctx context.Context, env *percolatortest.Env, _ tso.Timestamp) {
		fixture.WantErr(t, fixture.ErrOf(get(ctx, env, at)), percolator.ErrNotFound)
	}, func(s *percolator.Schema) {
		s.Tables = append(s.Tables, percolator.Table{Name: "brief", Observed: []string{"seen"}, Columns: []percolator.ColumnSchema{column}})
	})
	ctx := fixture.Context(t)
	if notified := fixture.CellsOf(t, ctx, env, "brief", "notify") > 0; notified != column.NotifyExpired {
		t.Errorf("the column is notified of the end: %v, want %v", notified, column.NotifyExpired)
	}
	if n := fixture.CellsOf(t, ctx, env, "brief", "write"); n > 0 && !column.NotifyExpired {
		t.Errorf("%d records are left", n)
	}
}

// TestAcknowledgmentsOfALockedEndAreErased: a transaction locks a cell that has been deleted, and
// commits above the watermark. Its record keeps no acknowledgment (J13).
func TestAcknowledgmentsOfALockedEndAreErased(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		at := fixture.Cell("r", "seen")
		var env *percolatortest.Env
		between(t, func(ctx context.Context, e *percolatortest.Env) {
			env = e
			fixture.Put(t, ctx, env.Client, "r", "seen", "1")
			fixture.Acknowledge(t, ctx, env.Client, at, "o")
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Delete(at) }))
			fixture.Acknowledge(t, ctx, env.Client, at, "o")
		}, func(ctx context.Context, env *percolatortest.Env) {
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
				_, err := tx.GetForUpdate(ctx, at)
				fixture.WantErr(t, err, percolator.ErrNotFound)
				return nil
			}))
		}, func(ctx context.Context, env *percolatortest.Env, _ tso.Timestamp) {})
		if n := fixture.CellsOf(t, fixture.Context(t), env, "t", "write"); n > 0 {
			t.Errorf("%d records are left", n)
		}
	})
}
