package console

import (
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
)

// workers are those that "percolator workers ls" lists.
func (st *state) workers() []model.WorkerInfo {
	return health.Running(st.Workers.Value.Live, st.Processes.Value)
}

// untaken are the observed columns that no worker takes, as far as is known.
func (st *state) untaken() []health.Finding {
	if !st.Workers.Known() || !st.Processes.Known() || !st.Pending.Known() {
		return nil
	}
	return health.Untaken(st.Pending.Value.schema, st.workers())
}

// Takers says how many workers take a column.
func (p *page) Takers(c waitingColumn) string {
	switch n, unsure := health.Takers(p.workers(), c.Table, c.Column); {
	case n > 0:
		return plural(n, "worker", "workers")
	case unsure || !p.Workers.Known() || !p.Processes.Known():
		return "unknown"
	}
	return ""
}
