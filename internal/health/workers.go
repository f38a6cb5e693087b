package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
)

// Running are the workers that announce themselves, which those with observers.Config.Partition do,
// and those that only report.
func Running(announced []model.WorkerInfo, reports []model.Report) []model.WorkerInfo {
	live := slices.Clone(announced)
	for _, r := range reports {
		if r.HasWorker() && !slices.ContainsFunc(announced, func(w model.WorkerInfo) bool { return w.Name == r.Name }) {
			live = append(live, model.WorkerInfo{Name: r.Name, Session: r.Session, Version: r.Version, Started: r.Started, Expires: r.Expires,
				Observers: slices.Sorted(maps.Keys(r.Worker.Observers)), Columns: r.Worker.Columns, Takes: r.Worker.Takes})
		}
	}
	return live
}

// OldestReported is the age of the oldest notification that any worker has met, whoever takes it.
func OldestReported(reports []model.Report) (oldest time.Duration) {
	for _, r := range reports {
		oldest = max(oldest, time.Duration(max(r.Worker.BacklogMillis, r.Worker.OldestMillis))*time.Millisecond)
	}
	return oldest
}

const listWorkers = "percolator workers ls"

// Agreement looks for disagreement among workers, which is normal only while a new version is being
// rolled out.
func Agreement(live []model.WorkerInfo) (out []Finding) {
	versions, names := map[string]int{}, map[string]bool{}
	sets := map[string]map[string]bool{} // of observers, by the columns that are taken
	for _, w := range live {
		versions[text.Line(w.Version)]++
		if w.Version != "" && w.Version != "(devel)" && w.Version != "unknown" { // a build that does not know
			names[w.Version] = true
		}
		if w.Columns == "" {
			continue // it does not say what it takes
		}
		if sets[w.Columns] == nil {
			sets[w.Columns] = map[string]bool{}
		}
		sets[w.Columns][strings.Join(text.Spans(slices.Sorted(slices.Values(w.Observers))), ", ")] = true
	}
	disagree := func(format string, args ...any) {
		f := Found(Warning, listWorkers, format, args...)
		f.Advice = "Fine during a roll-out; finish it otherwise."
		out = append(out, f)
	}
	if len(names) > 1 {
		each := ordered.Map(slices.Sorted(maps.Keys(versions)), func(v string) string { return fmt.Sprintf("%s: %d", v, versions[v]) })
		disagree("workers of different versions (%s)", strings.Join(each, ", "))
	}
	for _, columns := range slices.Sorted(maps.Keys(sets)) {
		if len(sets[columns]) > 1 {
			disagree("workers of the same columns have different observers (%s)", strings.Join(slices.Sorted(maps.Keys(sets[columns])), " | "))
		}
	}
	return out
}

// Takers is how many workers take a column; unsure: some do not say which they take.
func Takers(live []model.WorkerInfo, table, column string) (n int, unsure bool) {
	for _, w := range live {
		takes, known := w.TakesColumn(table, column)
		if takes {
			n++
		}
		unsure = unsure || !known
	}
	return n, unsure
}

// telling adds the columns of workers that tell only which set they take, for want of room, if that
// is all of the instance or all of one team's.
func telling(s *model.Schema, live []model.WorkerInfo) []model.WorkerInfo {
	sets := map[string]map[string][][]byte{}
	add := func(tables []model.Table) {
		columns, takes := catalog.ObservedColumns(tables), map[string][][]byte{}
		for _, c := range columns {
			takes[c.Table] = append(takes[c.Table], []byte(c.Column))
		}
		sets[catalog.Fingerprint(columns)] = takes
	}
	teams := map[string][]model.Table{}
	for _, t := range s.Tables {
		teams[t.Schema] = append(teams[t.Schema], t)
	}
	for _, tables := range teams {
		add(tables)
	}
	add(s.Tables)
	return ordered.Map(live, func(w model.WorkerInfo) model.WorkerInfo {
		if w.Takes == nil {
			w.Takes = sets[w.Columns]
		}
		return w
	})
}

// Untaken looks for columns whose notifications pile up. It has one finding for all of a table: a
// queue has a column for each of its parts.
func Untaken(s *model.Schema, live []model.WorkerInfo) (out []Finding) {
	live = telling(s, live)
	for _, t := range s.Tables {
		var waiting, unsure []string
		for _, column := range slices.Concat(t.Observed, t.Weak) {
			switch n, silent := Takers(live, t.Name, column); {
			case n > 0:
			case silent:
				unsure = append(unsure, text.Shown(column))
			default:
				waiting = append(waiting, text.Shown(column))
			}
		}
		if len(unsure) > 0 {
			out = append(out, Unchecked("%s: some workers do not say which columns they take", columnsOf(t.Name, unsure))...)
		}
		if len(waiting) > 0 {
			f := Found(Warning, "percolator notify ls "+t.Name, "no worker takes %s: notifications wait", columnsOf(t.Name, waiting))
			f.Advice, f.Runbook = "Start a worker with their observers.", "alert-percolator-no-worker"
			if len(live) == 0 {
				f.Advice = "No worker runs: start one."
			}
			out = append(out, f)
		}
	}
	return out
}

// Overdue looks for observers whose runs their timeouts have not ended.
func Overdue(reports []model.Report) []Finding {
	var n int64
	names := map[string]bool{}
	for _, r := range reports {
		n += r.Worker.Overdue
		for name, o := range r.Worker.Observers {
			if o.Overdue > 0 {
				names[text.Shown(name)] = true
			}
		}
	}
	if n <= MostOverdue {
		return nil
	}
	return []Finding{{Level: Warning, Remedy: listWorkers, Runbook: "alert-percolator-observer-overdue",
		Saw:    counted(int(n), "run has", "runs have") + " not returned after the timeout, of " + listed(slices.Sorted(maps.Keys(names)), mostNamed),
		Advice: "Each holds a slot of its worker: have the observer return when its context ends; a restart of the process ends the run."}}
}

// Overloaded looks for tables on which Bigtable asks clients to slow down.
func Overloaded(reports []model.Report) []Finding {
	clients, tables := 0, map[string]bool{}
	for _, r := range reports {
		if len(r.Stats.Overloaded) > 0 {
			clients++
		}
		for _, t := range r.Stats.Overloaded {
			tables[text.Shown(t)] = true
		}
	}
	if clients <= MostOverloaded {
		return nil
	}
	return []Finding{{Level: Warning, Remedy: "docs/RUNBOOK.md", Runbook: "alert-percolator-overloaded",
		Saw:    "Bigtable asks " + counted(clients, "client", "clients") + " to slow down on " + listed(slices.Sorted(maps.Keys(tables)), mostNamed),
		Advice: "Requests wait, background work first: add nodes, or send less."}}
}

// mostNamed is how many columns of a table, or observers, a finding names.
const mostNamed = 3

func columnsOf(table string, columns []string) string {
	if len(columns) == 1 {
		return fmt.Sprintf("the column %s of %s", columns[0], table)
	}
	return fmt.Sprintf("%d columns of %s (%s)", len(columns), table, listed(columns, mostNamed))
}

// listed names the first of many.
func listed(names []string, most int) string {
	named := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		named += ", …"
	}
	return named
}
