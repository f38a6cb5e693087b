package loader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
)

// A client that is idle but for snapshots with MaxStaleness reads a table after an import into it:
// a new timestamp would do, so the remembered one must not be refused for ever.
func TestMaxStalenessAfterAnImport(t *testing.T) { inBubble(t, testMaxStalenessAfterAnImport) }

func testMaxStalenessAfterAnImport(t *testing.T) {
	e := bulkEnv(t)
	idle := e.NewClient()
	_, err := idle.Snapshot(e.ctx) // its newest timestamp
	fixture.Must(t, err)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(10))
	fixture.Must(t, err)
	for range 3 {
		time.Sleep(time.Minute) // until the client knows
		err := idle.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			_, err := s.Get(ctx, cell(name("r", 0)))
			return err
		}, percolator.MaxStaleness(time.Hour))
		if err != nil {
			t.Errorf("a snapshot that may be an hour old: %v", err)
		}
	}
}

// Snapshots that may be stale show nothing of an import or all of it, and all of it from the first
// that does, whenever they begin and whatever the client has remembered.
func TestMaxStalenessDuringAnImport(t *testing.T) { inBubble(t, testMaxStalenessDuringAnImport) }

func testMaxStalenessDuringAnImport(t *testing.T) {
	const count = 10
	e := bulkEnv(t)
	idle, busy := e.NewClient(), e.NewClient()
	_, err := idle.Snapshot(e.ctx)
	fixture.Must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(count))
		done <- err
	}()
	shown := map[*percolator.Client]bool{}
	look := func(c *percolator.Client) error {
		return c.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			seen := map[string]bool{}
			for entry, err := range s.Scan(ctx, "t", percolator.All()) {
				if err != nil {
					return err
				}
				seen[entry.Cell.Row] = true
			}
			if n := len(seen); n != 0 && n != count || n == 0 && shown[c] {
				t.Errorf("a snapshot at %d shows %d rows of %d, after one that showed all: %v", s.StartTimestamp(), n, count, shown[c])
			}
			shown[c] = shown[c] || len(seen) == count
			return nil
		}, percolator.MaxStaleness(time.Hour))
	}
	refused := 0
	for importing := true; importing; {
		select {
		case err := <-done:
			fixture.Must(t, err)
			importing = false
		case <-time.After(500 * time.Millisecond):
		}
		if _, err := busy.Snapshot(e.ctx); err != nil { // a new timestamp to remember
			t.Fatal(err)
		}
		for _, c := range []*percolator.Client{idle, busy} {
			switch err := look(c); {
			case errors.Is(err, percolator.ErrSnapshotTooOld), errors.Is(err, admin.ErrImporting):
				refused++
			case err != nil:
				t.Fatal(err)
			}
		}
	}
	time.Sleep(time.Minute) // until all know
	for _, c := range []*percolator.Client{idle, busy} {
		fixture.Must(t, look(c))
		if !shown[c] {
			t.Error("a minute after the import a client sees nothing of it")
		}
	}
	if refused == 0 {
		t.Error("no snapshot met the import")
	}
}
