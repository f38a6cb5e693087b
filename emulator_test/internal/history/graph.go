package history

import (
	"cmp"
	"math"
	"slices"
)

// dependency is why one transaction comes before another.
type dependency uint8

const (
	ww dependency = iota // wrote or locked the version before
	wr                   // wrote what the other read
	rw                   // read the version that the other replaced: the anti-dependency
	rt                   // ended before the other began
)

func (d dependency) String() string { return [...]string{"ww", "wr", "rw", "rt"}[d] }

// noCell is the cell of a real-time edge.
const noCell cellID = -1

type edge struct {
	from, to int32
	kind     dependency
	cell     cellID
}

// graph holds the edges by their beginning. Nodes are transactions and, behind them, moments: who
// ended before a moment comes before who began after it, which takes two edges for each transaction
// instead of one for each pair.
type graph struct {
	transactions, nodes int32
	first               []int32 // by node; first[n]…first[n+1] are its edges
	edges               []edge
}

func newGraph(transactions, nodes int32, edges []edge) *graph {
	g := &graph{transactions: transactions, nodes: nodes, first: make([]int32, nodes+2), edges: make([]edge, len(edges))}
	for _, e := range edges {
		g.first[e.from+2]++
	}
	for i := 2; i < len(g.first); i++ {
		g.first[i] += g.first[i-1]
	}
	for _, e := range edges {
		at := &g.first[e.from+1]
		g.edges[*at] = e
		*at++
	}
	return g
}

func (g *graph) out(n int32) []edge { return g.edges[g.first[n]:g.first[n+1]] }

// dependencies builds the graph of the committed transactions. Which version was read follows from
// its value; the order of versions follows from the lists themselves, and for cells that are no
// lists from commit timestamps. Start timestamps have no part in it, so the search for cycles is a
// second opinion.
func (c *Checker) dependencies() *graph {
	var edges []edge
	add := func(from, to int32, kind dependency, cell cellID) {
		if from != to {
			edges = append(edges, edge{from, to, kind, cell})
		}
	}
	for cell, vs := range c.lockers {
		for i := 1; i < len(vs); i++ {
			add(vs[i-1].txn, vs[i].txn, ww, cellID(cell))
		}
	}
	traced := c.trace()
	for _, cell := range sortedKeys(traced) {
		vs := traced[cell]
		for i := 1; i < len(vs); i++ {
			add(vs[i-1].txn, vs[i].txn, ww, cell)
		}
	}
	read := func(t *Txn, cell cellID, value valueID) {
		if at, _ := c.valueAt(cell, t.start); t.judged && at != value {
			return // an earlier window has told, or forgotten the version
		}
		vs, list := traced[cell]
		i := 0
		if list {
			i = c.inList(t, cell, vs, value)
		} else {
			vs = c.versions[cell]
			i = c.versionRead(t, cell, value)
		}
		if i >= 0 && i < len(vs) {
			add(vs[i].txn, t.id, wr, cell)
		}
		if i+1 < len(vs) {
			add(t.id, vs[i+1].txn, rw, cell)
		}
	}
	for _, t := range c.txns {
		if !t.committed || t.start == 0 {
			continue
		}
		own := map[cellID]bool{}
		for _, o := range t.ops {
			switch {
			case o.kind == opPut || o.kind == opDelete:
				own[o.cell] = true
			case o.kind == opRead && !own[o.cell]:
				read(t, o.cell, o.value)
			case o.kind == opScan && !o.scan.index:
				c.eachScanned(o.scan, func(cell cellID, value valueID) {
					if !own[cell] {
						read(t, cell, value)
					}
				})
			}
		}
	}
	nodes, edges := c.realTime(edges)
	c.report.Edges += len(edges)
	return newGraph(int32(len(c.h.txns)), nodes, edges)
}

// unseen is the index of a version that cannot be told: it has no edges.
const unseen = 1 << 30

// versionRead is the index of the version that a transaction read, -1 for the state before the
// first.
func (c *Checker) versionRead(t *Txn, cell cellID, value valueID) int {
	vs := c.versions[cell]
	i := c.at(cell, t.start)
	if value == absent {
		if i >= 0 && vs[i].seen(t.start) != absent {
			return -1
		}
		return i
	}
	if i >= 0 && vs[i].value == value {
		return i
	}
	for j := range vs {
		if vs[j].value == value {
			return j
		}
	}
	return unseen
}

// trace orders the versions of lists by what they contain: the shorter list came first, and the
// deletion last.
func (c *Checker) trace() map[cellID][]version {
	traced := map[cellID][]version{}
	for cell, vs := range c.versions {
		if len(vs) == 0 || c.rules.List == nil || !c.rules.List(c.h.names[cell]) {
			continue
		}
		vs = slices.Clone(vs)
		length := func(v version) int {
			if v.value == absent {
				return math.MaxInt
			}
			return len(c.h.texts[v.value])
		}
		slices.SortStableFunc(vs, func(a, b version) int { return cmp.Compare(length(a), length(b)) })
		traced[cellID(cell)] = vs
	}
	return traced
}

// inList is the index of the version of a list that was read. Of absence only the timestamps tell
// whether the list was not there yet, or deleted.
func (c *Checker) inList(t *Txn, cell cellID, vs []version, value valueID) int {
	if at := c.versionRead(t, cell, value); value == absent && at < 0 {
		return -1
	}
	i := slices.IndexFunc(vs, func(v version) bool { return v.value == value })
	if i < 0 {
		return unseen
	}
	return i
}

// eachScanned calls f for every cell in the range of a scan, with what the scan said of it: a scan
// reads absence, too.
func (c *Checker) eachScanned(s *scan, f func(cellID, valueID)) {
	rest := s.entries
	for _, id := range c.cellsIn(s) {
		if !s.selects(c.h.names[id]) {
			continue
		}
		value := absent
		if len(rest) > 0 && rest[0].cell == id {
			value, rest = rest[0].value, rest[1:]
		}
		if value != absent || len(c.versions[id]) > 0 {
			f(id, value)
		}
	}
}

// realTime adds the order of real time among acknowledged transactions, and the nodes that it
// needs.
func (c *Checker) realTime(edges []edge) (nodes int32, out []edge) {
	moment := int32(len(c.h.txns)) - 1 // the newest; none yet
	fresh := false                     // none began after it
	for _, m := range c.moments() {
		t := m.txn
		switch {
		case t.placed || !t.committed:
		case m.end && t.outcome == Committed:
			if !fresh {
				moment++
				if moment > int32(len(c.h.txns)) {
					edges = append(edges, edge{moment - 1, moment, rt, noCell})
				}
				fresh = true
			}
			edges = append(edges, edge{t.id, moment, rt, noCell})
		case !m.end && moment >= int32(len(c.h.txns)):
			edges = append(edges, edge{moment, t.id, rt, noCell})
			fresh = false
		}
	}
	return moment + 1, edges
}
