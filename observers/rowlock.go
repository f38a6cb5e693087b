package observers

import "github.com/gopercolator/percolator/internal/scanning"

// unfinished tells which of rows have cells that wait for their first attempt, or run: those that
// the scanners of other workers are kept off (section 2.4 of the paper). Cells that failed and wait
// for another attempt are not among them, as waiting may take long and another worker may have more
// luck.
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

// byTable returns the columns that a worker takes, by table.
func (c *coverage) byTable() map[string][]*column {
	m := map[string][]*column{}
	for _, col := range c.taken {
		m[col.Table] = append(m[col.Table], col)
	}
	return m
}
