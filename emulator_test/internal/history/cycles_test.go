package history

import (
	"testing"

	"pgregory.net/rapid"
)

// TestComponentsAgainstSearch compares the search for cycles with one that tries every walk, on
// small random graphs.
func TestComponentsAgainstSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 6
		var edges []edge
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			e := edge{int32(rapid.IntRange(0, n-1).Draw(t, "from")), int32(rapid.IntRange(0, n-1).Draw(t, "to")),
				rapid.SampledFrom([]dependency{ww, wr, rw, rt}).Draw(t, "kind"), 0}
			if e.from != e.to {
				edges = append(edges, e)
			}
		}
		g := newGraph(n, n, edges)
		// reach[a][b]: a walk from state a to state b, one step at least.
		var reach [2 * n][2 * n]bool
		for a := range walkState(2 * n) {
			for _, e := range g.out(int32(a / 2)) {
				if b, ok := a.follow(e); ok {
					reach[a][b] = true
				}
			}
		}
		for k := range 2 * n {
			for a := range 2 * n {
				for b := range 2 * n {
					reach[a][b] = reach[a][b] || reach[a][k] && reach[k][b]
				}
			}
		}
		on := map[walkState]int{}
		for i, component := range g.components() {
			in := map[walkState]bool{}
			for _, s := range component {
				on[s], in[s] = i+1, true
			}
			for _, s := range component {
				checkCycle(t, g.cycle(s, in, [4]bool{true, true, true, true}))
			}
		}
		for a := range walkState(2 * n) {
			if reach[a][a] != (on[a] != 0) {
				t.Fatalf("state %d lies on a cycle: %v, in a component: %v", a, reach[a][a], on[a] != 0)
			}
			for b := range walkState(2 * n) {
				if (reach[a][b] && reach[b][a]) != (on[a] != 0 && on[a] == on[b]) {
					t.Fatalf("states %d and %d in components %d and %d", a, b, on[a], on[b])
				}
			}
		}
	})
}

func checkCycle(t *rapid.T, path []edge) {
	if len(path) == 0 {
		t.Fatal("no cycle through a node of a component")
	}
	for i, e := range path {
		next := path[(i+1)%len(path)]
		if e.to != next.from {
			t.Fatalf("not a cycle: %v", path)
		}
		if e.kind == rw && next.kind == rw {
			t.Fatalf("adjacent anti-dependencies: %v", path)
		}
	}
}
