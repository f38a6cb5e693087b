package console

import (
	"github.com/gopercolator/percolator/percolator/model"

	"maps"
	"slices"
)

// workers are those that announce themselves, and those that only report because they have no
// Config.Partition: what "percolator workers ls" lists.
func (st *state) workers() []model.WorkerInfo {
	list := slices.Clone(st.Workers.Value.Live)
	for _, r := range st.Processes.Value {
		if r.HasWorker() && !slices.ContainsFunc(list, func(w model.WorkerInfo) bool { return w.Name == r.Name }) {
			list = append(list, model.WorkerInfo{Name: r.Name, Session: r.Session, Version: r.Version, Started: r.Started, Expires: r.Expires,
				Observers: slices.Sorted(maps.Keys(r.Worker.Observers)), Columns: r.Worker.Columns, Takes: r.Worker.Takes})
		}
	}
	return list
}

// takers is how many workers take a column; unsure: some do not say which they take.
func (st *state) takers(c waitingColumn) (n int, unsure bool) {
	for _, w := range st.workers() {
		takes, known := w.TakesColumn(c.Table, c.Column)
		if takes {
			n++
		}
		unsure = unsure || !known
	}
	return n, unsure
}

// untaken are the observed columns that no worker takes, as far as is known.
func (st *state) untaken() (list []waitingColumn) {
	if !st.Workers.Known() || !st.Processes.Known() {
		return nil
	}
	for _, c := range st.Pending.Value.Columns {
		if n, unsure := st.takers(c); n == 0 && !unsure {
			list = append(list, c)
		}
	}
	return list
}

// Takers says how many workers take a column.
func (p *page) Takers(c waitingColumn) string {
	switch n, unsure := p.takers(c); {
	case n > 0:
		return plural(n, "worker", "workers")
	case unsure || !p.Workers.Known() || !p.Processes.Known():
		return "unknown"
	}
	return ""
}
