package meta

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A scan finds its table, or its index, before its first request. While it waits for answers and
// for its consumer, the name may come to stand for another table, which is empty, and writers may
// stop to maintain the index. So the scan keeps the incarnation of what it has found, and compares
// it after each page, by knowledge as fresh as every read demands (I26). A table is deleted a drain
// and MetaMaxAge after its incarnation has ended, so whoever reads another one of its name knows.

// Incarnation tells a table of Bigtable, also that of an index, from another one of its name, and
// an index that was open from one that is closed, or was opened again.
type Incarnation struct {
	Table string
	Drop  uint64           // as in Life
	State model.IndexState // zero for a table that is no index's
}

// Incarnation is that of a table of Bigtable.
func (m State) Incarnation(table string) Incarnation {
	owner, _, _ := strings.Cut(table, ".") // names of tables have no dots
	return Incarnation{table, m.life(owner, table).Drop, m.Indexes[table]}
}

// Incarnation is that of a table of Bigtable as this client knows it, perhaps from long ago: what
// is read of it is checked by CheckReadOf.
func (w *Watcher) Incarnation(table string) Incarnation {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last.Incarnation(table)
}

// CheckReadOf is CheckRead of a page of a scan: its table must be of the incarnation that the scan
// began with. Errors: also ErrSchemaMismatch.
func (w *Watcher) CheckReadOf(ctx context.Context, ts tso.Timestamp, began Incarnation) error {
	m, err := w.Known(ctx)
	if err == nil {
		err = cmp.Or(w.checkRead(m, ts, began.Table), m.checkErased(ts, []string{began.Table}))
	}
	if err != nil {
		return err
	}
	switch now := m.Incarnation(began.Table); {
	case now.Drop != began.Drop:
		return Life{Drop: began.Drop}.Became(Life{Drop: now.Drop}, began.Table)
	case now != began:
		return fmt.Errorf("percolator: index %q: %w: it was closed or opened meanwhile; call again", began.Table, model.ErrSchemaMismatch)
	}
	return nil
}
