package observers

import "github.com/gopercolator/percolator/internal/scanning"

// unfinished reports which of rows have cells that run or wait for their first attempt: the worker
// keeps other workers' scanners off these (section 2.4 of the paper). Cells that wait for another
// attempt do not count: they may wait long, and another worker may succeed.
func (w *Worker) unfinished(rows []scanning.Row) []bool {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	out := make([]bool, len(rows))
	for i, r := range rows {
		for _, col := range w.columns[r.Table] {
			if e := col.cells[r.Key]; e != nil && (e.class != waiting || e.state == stateRunning) {
				out[i] = true
			}
		}
	}
	return out
}

// byTable groups the columns that a worker takes by table.
func (c *coverage) byTable() map[string][]*column {
	m := map[string][]*column{}
	for _, col := range c.taken {
		m[col.Table] = append(m[col.Table], col)
	}
	return m
}
