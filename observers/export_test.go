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
