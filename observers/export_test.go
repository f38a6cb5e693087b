package observers

// LockRow locks a row against the scanners, as another scanner would.
func (w *Worker) LockRow(table, row string) (unlock func(), ok bool) {
	return func() { w.rows.Unlock(table, row) }, w.rows.TryLock(table, row)
}
