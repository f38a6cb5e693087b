package index

import (
	"time"

	"github.com/gopercolator/percolator/observers"
)

// Collapse is how long the observers behind process wait, by default, for further reasons to run. A popular page gets a new
// in-link with almost every page that is loaded; it is enough to count its in-links now and then.
const Collapse = 250 * time.Millisecond

// Registry wires the observers to the columns that they watch. Each reacts to one kind of change and causes the next:
//
//	crawl:response ─▶ process ─▶ relink ─▶ recluster ─▶ export
//	                     └────────────────────▲
//
// Process depends on what was crawled only, so its column is an observed one and each change is processed exactly once.
// The others look at many rows at once and recompute what these say now; their columns are weak. Two runs of the same
// weak notification could decide from different snapshots, and the one with the older snapshot could commit last. So each
// of these observers reads the cell that it decides about with GetForUpdate: of two such runs, one fails and is repeated.
func Registry(collapse time.Duration) *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("process", Documents, Response.Name, process)
	r.Observe("relink", Documents, Relink.Name, countInLinks, observers.Collapse(collapse))
	r.Observe("recluster", Clusters, Recluster.Name, chooseCanonical, observers.Collapse(collapse))
	r.Observe("export", Documents, Export.Name, publish, observers.Collapse(collapse))
	return r
}
