package observers

import (
	"hash/fnv"
	"slices"
	"sync/atomic"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// OneWorker is for an observer whose runs for different cells of its column conflict, such as a
// fold: one worker, the owner, runs all observers of the column, for all its cells. It saves
// conflicts; it excludes nobody.
//
// Every worker derives the owner from the list of live workers, which it reads from percolator_meta
// every 1 to 10 s. While the list changes, two workers may run for one cell; they conflict, as
// without the option. Workers pass notifications on to the owner through the oracle. Any worker may
// run what the owner has left for longer than Config.Grace.
func OneWorker() Option { return func(o *options) { o.owned = max(o.owned, byColumn) } }

// OneWorkerPerCell assigns each cell to one worker, whichever worker was notified. It is for an
// observer that many workers would run for the same cell, such as one of a weak column with
// [Collapse]: each of them would wait, and run by itself. The rest is as with [OneWorker], which
// takes precedence on a column.
func OneWorkerPerCell() Option { return func(o *options) { o.owned = max(o.owned, byCell) } }

// ownership is what has one worker.
type ownership byte

const (
	byNobody ownership = iota
	byCell
	byColumn
)

// owners decides which cells are other workers'. Rendezvous hashing leaves cells where they are
// when a worker comes or leaves, unless they become or were its own.
type owners struct {
	columns []*column // with an owner, or whose cells have one
	divided atomic.Pointer[division]
}

// division is who runs what; nil: this worker runs all.
type division struct {
	workers []peer             // this one among them
	columns map[*column]string // the workers of columns that have one
}

// peer is a worker with the same set of such columns.
type peer struct {
	name string
	hash uint64
}

// ofOneWorker returns the columns that have owners, by table and name.
func (c *coverage) ofOneWorker() (columns []*column) {
	for _, name := range c.sorted() {
		if col := c.taken[name]; col.owned != byNobody {
			columns = append(columns, col)
		}
	}
	return columns
}

// fingerprint identifies the set of columns and what of them has an owner; "" if there is none.
func (o *owners) fingerprint() string {
	if len(o.columns) == 0 {
		return ""
	}
	names := ordered.Map(o.columns, func(c *column) Column { return Column{c.Table, string('0'+byte(c.owned)) + c.Name} })
	return fingerprintOf(names)
}

// assign learns who lives. Workers with equal sets of columns divide these; none leaves anything
// to a worker of another set, or while it is not on the list itself.
func (o *owners) assign(self model.WorkerInfo, live []model.WorkerInfo) {
	var peers []peer
	for _, w := range live {
		if w.Owns == self.Owns {
			peers = append(peers, peer{w.Name, hashOf(w.Name)})
		}
	}
	if self.Owns == "" || len(peers) < 2 || !slices.ContainsFunc(peers, func(p peer) bool { return p.name == self.Name }) {
		o.divided.Store(nil)
		return
	}
	o.divided.Store(&division{peers, o.even(peers)})
}

// even gives each column that has one worker to the one whose hash with it is the greatest of those
// that have not their share yet: there are few such columns, and chance would leave some workers
// without.
func (o *owners) even(workers []peer) map[*column]string {
	var columns []*column
	for _, c := range o.columns {
		if c.owned == byColumn {
			columns = append(columns, c)
		}
	}
	least, more := len(columns)/len(workers), len(columns)%len(workers) // so many have one more
	of, has := map[*column]string{}, map[string]int{}
	for _, c := range columns {
		free := slices.DeleteFunc(slices.Clone(workers), func(p peer) bool {
			return has[p.name] > least || has[p.name] == least && more == 0
		})
		of[c] = greatest(free, hashOf(c.Table, c.Name))
		if has[of[c]]++; has[of[c]] > least {
			more--
		}
	}
	return of
}

// greatest returns the worker whose hash with h is the greatest.
func greatest(workers []peer, h uint64) (name string) {
	var most uint64
	for _, p := range workers {
		if x := mixed(h ^ p.hash); name == "" || x > most {
			name, most = p.name, x
		}
	}
	return name
}

// of returns the worker that runs for a cell; "": each does.
func (o *owners) of(c *column, row string) (worker string) {
	d := o.divided.Load()
	switch {
	case d == nil || c.owned == byNobody:
		return ""
	case c.owned == byColumn:
		return d.columns[c]
	}
	return greatest(d.workers, hashOf(c.Table, c.Name, row))
}

func hashOf(names ...string) uint64 {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// mixed makes each bit of the result depend on each of h: the finalizer of SplitMix64.
func mixed(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// owner returns the other worker that runs for a cell; "" if it is this one, or any.
func (w *Worker) owner(n model.Notification) string {
	col := w.coverage.taken[Column{n.Cell.Table, n.Cell.Column}]
	if col == nil {
		return ""
	}
	if owner := w.owners.of(col, n.Cell.Row); owner != w.name {
		return owner
	}
	return ""
}

// pass passes a notification on to the worker that runs for its cell, if that is another one.
func (w *Worker) pass(n model.Notification) bool {
	if w.unreachable.Load() {
		return false
	}
	owner := w.owner(n)
	return owner != "" && w.engine.Dispatch.Pass(owner, n)
}
