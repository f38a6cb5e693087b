package observers

import "sync"

// rowLocks are the paper's lightweight lock service, within one process: rows that a scanner works on. They are advisory and
// only save work; correctness rests on the transactions. A row is locked from when a scanner has read it until its cells are
// queued and its stranded locks are settled. From there on the queue sees to it that nobody works on a cell twice.
type rowLocks struct {
	mu   sync.Mutex
	held map[rowKey]struct{}
}

type rowKey struct{ table, row string }

func newRowLocks() *rowLocks { return &rowLocks{held: map[rowKey]struct{}{}} }

// tryLock returns false if another scanner holds the row.
func (l *rowLocks) tryLock(table, row string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := rowKey{table, row}
	if _, held := l.held[k]; held {
		return false
	}
	l.held[k] = struct{}{}
	return true
}

func (l *rowLocks) unlock(table, row string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, rowKey{table, row})
}
