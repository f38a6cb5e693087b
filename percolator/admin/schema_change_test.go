package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A client meets a lock whose primary is in a table that was added since it last read the schema:
// it reads it again.
func TestTableAddedMeanwhile(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "old"}}})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	bigger := &percolator.Schema{Tables: []percolator.Table{{Name: "old"}, {Name: "new"}}}
	if err := percolator.CreateSchema(ctx, env.Project, env.Instance, bigger, env.Options()...); err != nil {
		t.Fatal(err)
	}
	writer := env.NewClient()
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows { // phase two is late
			return hold
		}
		return percolatortest.Pass
	})
	if _, err := writer.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(percolator.Cell{Table: "new", Row: "r", Column: "c"}, []byte("1")), tx.Set(percolator.Cell{Table: "old", Row: "r", Column: "c"}, []byte("1")))
	}); err != nil {
		t.Fatal(err)
	}
	hold.Wait(t, 1)
	s, err := env.Client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(ctx, percolator.Cell{Table: "old", Row: "r", Column: "c"}); err != nil || string(v) != "1" {
		t.Errorf("reader: %q, %v", v, err)
	}
	_, err = env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "old", Row: "r", Column: "c"}, []byte("2"))
	})
	if err != nil {
		t.Errorf("writer: %v", err)
	}
	hold.Release()
}

// A write that was buffered before its column became observed is committed with its notification,
// or not at all.
func TestColumnObservedAfterTheWriteWasBuffered(t *testing.T) {
	t.Parallel()
	timing := percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second} // the client learns of schemas soon
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "old"}}, Timing: timing})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	tx, err := env.Client.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(percolator.Cell{Table: "old", Row: "r", Column: "c"}, []byte("1")); err != nil {
		t.Fatal(err)
	}
	bigger := &percolator.Schema{Tables: []percolator.Table{{Name: "old", Observed: []string{"c"}}}, Timing: timing}
	if err := percolator.CreateSchema(ctx, env.Project, env.Instance, bigger, env.Options()...); err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, "the client knows the new schema", func() bool { return len(env.Client.Schema().Tables[0].Observed) == 1 })
	env.Clock.Advance(time.Minute) // more than a drain, by the oracle
	if _, err := tx.Commit(ctx); err != nil {
		t.Logf("refused: %v", err)
		return
	}
	n := 0
	for p, err := range admin.New(env.Client).ScanPending(ctx, "old", percolator.All()) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(p.Notified)
	}
	if n == 0 {
		t.Errorf("the client knows that the column is observed, and commits a write of it without a notification")
	}
}
