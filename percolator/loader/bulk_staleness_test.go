package loader_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
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
