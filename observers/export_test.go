package observers

import "context"

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
