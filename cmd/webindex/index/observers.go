package index

import (
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// Collapse is how long observers wait, by default, for further reasons to run, and process for
// further pages. A popular page gets a new in-link with almost every page that is loaded; it is
// enough to collect its in-links now and then. Ranks are passed on after a quarter of it, as one
// change may take many folds.
const Collapse = 250 * time.Millisecond

// quiet is for how many times as long an observer waits, at most, until those that cause its work
// have nothing to do: what it does before that it does again after.
const quiet = 40

const (
	// processCells is how many pages are processed together at most: many of them have links to the
	// same targets, and share the requests for these.
	processCells = 250
	// processAtOnce is how many such batches a worker processes at once. Two would often link to
	// the same targets, and each would have to look at the columns of the other one by one.
	processAtOnce = 1
)

// Registry wires the observers to the columns that they watch. Each reacts to one kind of change
// and causes the next:
//
//	crawl:response -> process -+-> relink -------------------> recluster -> export
//	                           +-> reroute -+                    ^            ^
//	                           +------------+-> pass -> rerank --+------------+
//	                           |                ^  |             |            |
//	                           |                +--+             |            |
//	                           +---------------------------------+------------+
//
// Process depends on what was crawled only, so its column is an observed one and each change is
// processed exactly once. The others look at many rows at once and recompute what these say now;
// their columns are weak. Two runs of the same weak notification could decide from different
// snapshots, and the one with the older snapshot could commit last. So each of these observers
// reads the cell that it decides about with GetForUpdate: of two such runs, one fails and is
// repeated. (Reroute decides nothing.) Pass folds the queue [Passing], to which it adds itself; see
// [Unit].
func Registry(collapse time.Duration) *observers.Registry {
	r := observers.NewRegistry()
	batch := func(name string, col percolator.Column[[]byte], f observers.BatchFunc, wait time.Duration, after ...string) {
		r.ObserveBatch(name, col.Table, col.Name, f, observers.Collapse(wait), observers.After(quiet*max(wait, time.Millisecond), after...),
			observers.OneWorkerPerCell())
	}
	ranks := Passing.Observers()
	r.ObserveBatch("process", Response.Table, Response.Name, process, observers.MaxWait(collapse), observers.MaxConcurrent(processAtOnce), observers.MaxCells(processCells))
	batch("relink", Relink, relink, collapse, "process")
	batch("reroute", Reroute, reroute, collapse, "process")
	Passing.ObserveBatch(r, pass, observers.Collapse(collapse/4), observers.After(quiet*max(collapse, time.Millisecond), "process", "reroute"))
	batch("rerank", Rerank, rerank, collapse, append(ranks, "process", "reroute")...)
	batch("recluster", Recluster, recluster, collapse, "process")
	batch("export", Export, publish, collapse, "process", "relink", "recluster")
	batch("merge", Merge, merge, collapse, "process", "export")
	return r
}

// ObserverName is the name under which runs of an observer are counted: the folds of the queue are
// one observer for each of its buckets, of no interest by themselves.
func ObserverName(name string) string {
	name, _, _ = strings.Cut(name, "-")
	return name
}
