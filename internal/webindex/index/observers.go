package index

import (
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers"
)

// Collapse is how long the observers behind process wait, by default, for further reasons to run. A
// popular page gets a new in-link with almost every page that is loaded; it is enough to collect
// its in-links now and then. Ranks are passed on after a quarter of it, as one change takes many
// steps; and as each step changes ranks, clusters look at these after four times as long.
const Collapse = 250 * time.Millisecond

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
	r.Observe("process", Documents, Response.Name, process)
	r.Observe("relink", Documents, Relink.Name, collectAnchors, observers.Collapse(collapse))
	r.Observe("reroute", Documents, Reroute.Name, reroute, observers.Collapse(collapse))
	Passing.ObserveBatch(r, pass, observers.Collapse(collapse/4))
	r.Observe("rerank", Documents, Rerank.Name, rerank, observers.Collapse(4*collapse))
	r.Observe("recluster", Clusters, Recluster.Name, recluster, observers.Collapse(collapse))
	r.Observe("export", Documents, Export.Name, publish, observers.Collapse(collapse))
	return r
}

// ObserverName is the name under which runs of an observer are counted: the folds of the queue are
// one observer for each of its buckets, and nobody wants to know of each.
func ObserverName(name string) string {
	name, _, _ = strings.Cut(name, "-")
	return name
}
