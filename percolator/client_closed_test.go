package percolator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func TestCallsWithEndedContexts(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	tx := fixture.MustBegin(t, ctx, c)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	late, stop := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer stop()
	for want, ended := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: late} {
		for name, err := range map[string]error{
			"Begin":              fixture.ErrOf(c.Begin(ended)),
			"Snapshot":           fixture.ErrOf(c.Snapshot(ended)),
			"View":               c.View(ended, func(context.Context, *percolator.Snapshot) error { return nil }),
			"Update":             fixture.Update(ended, c, func(*percolator.Txn) error { return nil }),
			"Snapshot.Get":       fixture.ErrOf(s.Get(ended, fixture.Cell("r", "c"))),
			"Snapshot.GetMulti":  fixture.ErrOf(s.GetMulti(ended, fixture.Cell("r", "c"), fixture.Cell("s", "c"), fixture.Cell("s", "d"))),
			"Snapshot.Scan":      fixture.FirstError(s.Scan(ended, "t", percolator.All())),
			"Snapshot.ScanWith":  fixture.FirstError(s.ScanWith(ended, "t", percolator.ScanOptions{})),
			"Snapshot.ScanIndex": fixture.FirstError(s.ScanIndex(ended, "people", "city", percolator.All())),
			"Txn.Get":            fixture.ErrOf(tx.Get(ended, fixture.Cell("r", "c"))),
			"Txn.Scan":           fixture.FirstError(tx.Scan(ended, "t", percolator.All())),
			"Txn.ScanWith":       fixture.FirstError(tx.ScanWith(ended, "t", percolator.ScanOptions{})),
			"Txn.Acknowledge":    fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ended, fixture.Cell("r", "seen"), "O", []string{"O"})),
			"SampleRowKeys":      fixture.ErrOf(admin.New(c).SampleRowKeys(ended, "t")),
			"ClearNotification":  admin.New(c).ClearNotification(ended, fixture.Cell("r", "seen"), 1),
			"CreateSchema":       percolator.CreateSchema(ended, env.Project, env.Instance, fixture.Schema(), env.Options()...),
			"NewClient":          fixture.ErrOf(percolator.NewClient(ended, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		for _, err := range admin.New(c).ScanPending(ended, "t", percolator.All()) {
			fixture.WantErr(t, err, want)
		}
	}
	fixture.WantValue(t, ctx, tx, fixture.Cell("r", "c"), "v") // still usable
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	c := env.NewClient()
	fixture.Put(t, ctx, c, "r", "c", "v", "s", "c", "v")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, c.Close())
	fixture.Must(t, c.Close())
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left: Close did not wait for phase two", n)
	}
	for name, err := range map[string]error{
		"Begin":              fixture.ErrOf(c.Begin(ctx)),
		"Begin blind":        fixture.ErrOf(c.Begin(ctx, percolator.Blind())),
		"Snapshot":           fixture.ErrOf(c.Snapshot(ctx)),
		"Update":             fixture.Update(ctx, c, func(*percolator.Txn) error { return nil }),
		"Snapshot.Get":       fixture.ErrOf(s.Get(ctx, fixture.Cell("r", "c"))),
		"Snapshot.Scan":      fixture.FirstError(s.Scan(ctx, "t", percolator.All())),
		"Snapshot.ScanIndex": fixture.FirstError(s.ScanIndex(ctx, "people", "city", percolator.All())),
		"Txn.Get":            fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))),
		"SampleRowKeys":      fixture.ErrOf(admin.New(c).SampleRowKeys(ctx, "t")),
		"Acknowledge":        fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})),
	} {
		if !errors.Is(err, percolator.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, err := range admin.New(c).ScanPending(ctx, "t", percolator.All()) {
		fixture.WantErr(t, err, percolator.ErrClosed)
	}
}
