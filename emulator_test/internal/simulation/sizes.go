package simulation

import (
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// How many cells tables may hold at rest.
const (
	metaCells    = 50
	journalCells = 100 // and some for each process: headers, low positions
	streamCells  = 10
	versionCells = 4 // version, record and what two observers leave
	tableCells   = 50
)

// checkSizes looks at what the store holds when everything old was collected: memory of any kind
// that grows with the transactions there were would show.
func (w *world) checkSizes(schema *model.Schema) {
	processes := 0
	for _, sl := range w.slots {
		sl.mu.Lock()
		processes += sl.incarnation
		sl.mu.Unlock()
	}
	most := map[string]int{model.MetaTable: metaCells, model.JournalTable: journalCells + streamCells*processes}
	for _, t := range schema.Tables {
		_, versions := w.size(t.Name)
		most[t.Name] = tableCells + versionCells*versions
	}
	for table, limit := range most {
		if cells, _ := w.size(table); cells > limit {
			w.problem("at rest table %s holds %d cells, want at most %d", table, cells, limit)
		}
	}
}

// size is how many cells a table holds, and how many columns of rows have a value.
func (w *world) size(table string) (cells, values int) {
	err := w.cluster.Visit(table, func(r layout.Row) bool {
		cells += len(r.Items)
		last := ""
		for _, c := range r.Items {
			if c.Family == layout.DataFamily && c.Column != last {
				values++
				last = c.Column
			}
		}
		return true
	})
	if err != nil {
		w.problem("%v", err)
	}
	return cells, values
}
