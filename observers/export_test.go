package observers

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/retry"
)

// LockRow locks a row against the scanners, as another scanner would.
func (w *Worker) LockRow(table, row string) (unlock func(), ok bool) {
	return func() { w.rows.Unlock(table, row) }, w.rows.TryLock(table, row)
}

// Survey looks once at all unfinished work by the journal, and queues what it finds.
func (w *Worker) Survey(ctx context.Context) error {
	_, _, err := w.surveyed(ctx)
	return err
}

// Peers is how many workers divide columns or cells, this one among them; 0: this one runs for all.
func (w *Worker) Peers() int {
	if d := w.owners.divided.Load(); d != nil {
		return len(d.workers)
	}
	return 0
}

// Gather has so many runs of an observer begin together, which have not begun yet, and returns when
// all of them are there.
func (w *Worker) Gather(ctx context.Context, observer string, n int) {
	for _, rn := range w.coverage.runners {
		if g := &rn.groups; rn.name == observer {
			g.turn <- struct{}{}
			for n < commit.TogetherMost && g.gathered() < n && retry.Sleep(ctx, time.Millisecond) == nil {
			}
			<-g.turn
		}
	}
}

func (g *grouping) gathered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forming == nil {
		return 0
	}
	return g.forming.size
}
