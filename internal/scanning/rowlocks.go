package scanning

import (
	"sync"

	"github.com/gopercolator/percolator/internal/layout"
)

// Row names a row.
type Row struct{ Table, Key string }

// RowLocks keep the scanners of one worker apart: a row is locked from when a scanner has read it
// until its cells are queued and its stranded locks are settled. From there on the queue sees to it
// that the worker does not work on a cell twice. Its methods may be called concurrently.
type RowLocks struct {
	mu   sync.Mutex
	held map[Row]struct{}
}

// NewRowLocks returns locks of which none is taken.
func NewRowLocks() *RowLocks { return &RowLocks{held: map[Row]struct{}{}} }

// TryLock returns false if another scanner holds the row.
func (l *RowLocks) TryLock(table, row string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := Row{table, row}
	if _, held := l.held[k]; held {
		return false
	}
	l.held[k] = struct{}{}
	return true
}

// Unlock lets other scanners have the row.
func (l *RowLocks) Unlock(table, row string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, Row{table, row})
}

func (l *RowLocks) unlockAll(rows []layout.Pending) {
	for _, r := range rows {
		l.Unlock(r.Table, r.Row)
	}
}
