package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
)

// client is a client in all its reports together: its workers report the same Stats, which count
// once.
type client struct {
	model.Report // the newest; Worker sums its workers up

	Workers int
}

// clientsOf groups reports by client, in the order of host, process and client.
func clientsOf(reports []model.Report) []client {
	byID := map[string]client{}
	for _, r := range reports {
		c, known := byID[clientID(r)]
		sum := c.Worker
		if !known || r.Uptime > c.Uptime || r.Uptime == c.Uptime && r.Written > c.Written {
			c.Report = r
		}
		if r.HasWorker() {
			c.Workers++
			sum.ObserverReport = plus(sum.ObserverReport, r.Worker.ObserverReport)
			sum.Running, sum.Queued = sum.Running+r.Worker.Running, sum.Queued+r.Worker.Queued
		}
		c.Worker = sum
		byID[clientID(r)] = c
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b client) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(clientID(a.Report), clientID(b.Report)))
	})
}

// clientID tells clients apart; those of an earlier version do not name themselves.
func clientID(r model.Report) string {
	if r.Client != "" {
		return r.Client
	}
	return fmt.Sprint(r.Name, " ", int64(r.Started))
}

func plus(a, b model.ObserverReport) model.ObserverReport {
	return model.ObserverReport{Runs: a.Runs + b.Runs, Attempts: a.Attempts + b.Attempts, Retries: a.Retries + b.Retries,
		Conflicts: a.Conflicts + b.Conflicts, Errors: a.Errors + b.Errors, Panics: a.Panics + b.Panics, Overdue: a.Overdue + b.Overdue}
}

// withOwn puts what this process knows of itself in the place of what it has reported.
func withOwn(own model.Report, reports []model.Report) []model.Report {
	all := slices.DeleteFunc(slices.Clone(reports), func(r model.Report) bool { return r.Name == own.Name })
	return append(all, own)
}

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
