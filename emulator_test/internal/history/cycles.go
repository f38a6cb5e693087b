package history

import (
	"fmt"
	"slices"
	"strings"
)

// A cycle without two adjacent anti-dependencies is a cycle in another graph, whose nodes are
// pairs: a transaction, and whether it was reached by an anti-dependency. From those that were, no
// further anti-dependency leads on. The strongly connected components of that graph are found in
// linear time (Tarjan, 1972); every node of one that has several lies on a cycle.

// walkState is a node of that graph: 2 × the node of the graph, + 1 if it was reached by an
// anti-dependency.
type walkState int32

// follow returns where an edge leads from a state; false if it would be the second anti-dependency
// in a row.
func (s walkState) follow(e edge) (walkState, bool) {
	if e.kind != rw {
		return walkState(e.to) * 2, true
	}
	return walkState(e.to)*2 + 1, s%2 == 0
}

// components returns the strongly connected components that have more than one node. It keeps its
// own stack: the graph is deep.
func (g *graph) components() (found [][]walkState) {
	n := int(g.nodes) * 2
	index, low := make([]int32, n), make([]int32, n) // index: 0 is not visited
	onStack := make([]bool, n)
	type frame struct {
		at   walkState
		next int32 // of g.edges
	}
	var path []frame
	var stack []walkState
	count := int32(0)
	visit := func(s walkState) {
		count++
		index[s], low[s] = count, count
		stack, onStack[s] = append(stack, s), true
		path = append(path, frame{s, g.first[s/2]})
	}
	for root := range walkState(n) {
		if index[root] == 0 {
			visit(root)
		}
		for len(path) > 0 {
			f := &path[len(path)-1]
			if f.next < g.first[f.at/2+1] {
				to, ok := f.at.follow(g.edges[f.next])
				f.next++
				switch {
				case !ok:
				case index[to] == 0:
					visit(to)
				case onStack[to]:
					low[f.at] = min(low[f.at], index[to])
				}
				continue
			}
			s := f.at
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1].at
				low[p] = min(low[p], low[s])
			}
			if low[s] != index[s] {
				continue
			}
			i := len(stack) - 1
			for ; stack[i] != s; i-- {
				onStack[stack[i]] = false
			}
			onStack[s] = false
			if len(stack)-i > 1 {
				found = append(found, append([]walkState(nil), stack[i:]...))
			}
			stack = stack[:i]
		}
	}
	return found
}

// cycle finds a shortest cycle through start that uses only edges of the given kinds and stays in
// the component.
func (g *graph) cycle(start walkState, in map[walkState]bool, allowed [4]bool) []edge {
	type step struct {
		from walkState
		by   edge
	}
	came := map[walkState]step{}
	queue := []walkState{start}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, e := range g.out(int32(s / 2)) {
			to, ok := s.follow(e)
			if !ok || !allowed[e.kind] || !in[to] {
				continue
			}
			if _, been := came[to]; been {
				continue
			}
			came[to] = step{s, e}
			if to == start {
				var path []edge
				for at := to; ; {
					st := came[at]
					path = append([]edge{st.by}, path...)
					if at = st.from; at == start {
						return path
					}
				}
			}
			queue = append(queue, to)
		}
	}
	return nil
}

// searched is through how many transactions of a component cycles of each sort are looked for.
const searched = 100

// searches are what cycles are made of, the plainest first.
var searches = [][4]bool{
	{ww: true},
	{ww: true, rt: true},
	{ww: true, wr: true},
	{ww: true, wr: true, rt: true},
	{ww: true, wr: true, rw: true},
	{ww: true, wr: true, rw: true, rt: true},
}

func (c *Checker) checkCycles() {
	g := c.dependencies()
	for _, component := range g.components() {
		in := make(map[walkState]bool, len(component))
		for _, s := range component {
			in[s] = true
		}
		told := map[Kind]bool{}
		for _, allowed := range searches {
			for _, s := range component[:min(len(component), searched)] {
				path := g.cycle(s, in, allowed)
				if path == nil || !c.news(g, path) {
					continue
				}
				if kind := classify(path); !told[kind] {
					told[kind] = true
					c.explain(kind, g, path)
				}
				break
			}
		}
	}
}

// news tells whether an earlier window cannot have found the cycle.
func (c *Checker) news(g *graph, path []edge) bool {
	return slices.ContainsFunc(path, func(e edge) bool { return e.from < g.transactions && c.txn(e.from).fresh() })
}

// classify names a cycle by its edges.
func classify(path []edge) Kind {
	var n [4]int
	for _, e := range path {
		n[e.kind]++
	}
	kind := anomalyG0
	switch {
	case n[rw] > 1:
		kind = anomalyGNonadjacent
	case n[rw] == 1:
		kind = anomalyGSingle
	case n[wr] > 0:
		kind = anomalyG1c
	}
	if n[rt] > 0 {
		kind += realTimeSuffix
	}
	return kind
}

// explain writes a cycle down: T1 -ww accounts/a/balance-> T2 …
func (c *Checker) explain(kind Kind, g *graph, path []edge) {
	var b strings.Builder
	// Begin at a transaction, not at a moment between two.
	for path[0].from >= g.transactions {
		path = append(path[1:len(path):len(path)], path[0])
	}
	var members []any
	for _, e := range path {
		if e.from < g.transactions {
			fmt.Fprintf(&b, "T%d ", c.txn(e.from).number)
			members = append(members, c.txn(e.from))
			if e.kind == rt {
				b.WriteString("-rt-> ")
			}
		}
		if e.kind != rt {
			fmt.Fprintf(&b, "-%s %s-> ", e.kind, c.h.names[e.cell])
		}
	}
	fmt.Fprintf(&b, "T%d", c.txn(path[0].from).number)
	format := "%s, where " + strings.TrimSuffix(strings.Repeat("%s; ", len(members)), "; ")
	c.report.add(kind, format, append([]any{b.String()}, members...)...)
}
