package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// A reader that takes all cells or none, and meets one that cannot be decoded, says so at once: it
// does not wait for the locks of the others. One that judges each cell does.
func TestCorruptCellIsReportedBesideLiveLocks(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	alive := layout.LockRecord{StartTS: 5, Kind: layout.KindPut, Primary: cell("a locked"), Placed: present, TTL: time.Minute}
	layertest.Plant(t, c.Store, "a locked", layout.LockFamily, "c", 5, alive.Encode())
	layertest.Plant(t, c.Store, "corrupt", layout.LockFamily, "c", 5, []byte("x"))
	layertest.Plant(t, c.Store, "corrupt", layout.LockFamily, "d", 5, []byte("x"))
	other := model.Cell{Table: "t", Row: "corrupt", Column: "d"}
	for what, r := range map[string]struct {
		read     func(context.Context, *reads.Snapshot) error
		requests int64 // 0: some that are cut off
	}{
		"GetMulti": {func(ctx context.Context, s *reads.Snapshot) error {
			return second(s.GetMulti(ctx, cell("a locked"), cell("corrupt")))
		}, 1},
		"GetMulti of requests": {func(ctx context.Context, s *reads.Snapshot) error {
			return second(s.GetMulti(ctx, cell("a locked"), other))
		}, 0},
		"Scan": {func(ctx context.Context, s *reads.Snapshot) error { return firstOf(s.Scan(ctx, "t", model.All())) }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			before := c.Stats().Requests["ReadRows"]
			err := r.read(ctx, reads.NewSnapshot(c.Reads, present))
			if !errors.Is(err, model.ErrCorrupt) || errors.Is(err, model.ErrLocked) || !strings.Contains(err.Error(), `t/"corrupt"/`) {
				t.Errorf("%v", err)
			}
			if n := c.Stats().Requests["ReadRows"] - before; r.requests > 0 && n != r.requests {
				t.Errorf("%d requests, want %d", n, r.requests)
			}
		})
	}
}
