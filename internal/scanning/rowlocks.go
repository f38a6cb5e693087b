package scanning

import (
	"sync"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// RowLocks keep the scanners of one worker apart. A row is locked from when a scanner has read it
// until its cells are queued and its stranded locks resolved. From then on the queue keeps the
// worker from handling a cell twice. The methods may be called concurrently.
type RowLocks struct {
	mu   sync.Mutex
	held map[layout.RowID]struct{}
}

// NewRowLocks returns locks of which none is taken.
func NewRowLocks() *RowLocks { return &RowLocks{held: map[layout.RowID]struct{}{}} }

// TryLock returns false if another scanner holds the row.
func (l *RowLocks) TryLock(table, row string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := layout.RowID{Table: table, Key: row}
	if _, held := l.held[k]; held {
		return false
	}
	l.held[k] = struct{}{}
	return true
}

// Unlock releases the row to other scanners.
func (l *RowLocks) Unlock(table, row string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, layout.RowID{Table: table, Key: row})
}

func (l *RowLocks) unlockAll(rows []model.Pending) {
	for _, r := range rows {
		l.Unlock(r.Table, r.Row)
	}
}
