package reads

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// What nobody asked for takes at most half of the cache, and never the place of what was asked for.
func TestNeighboursTakeHalfOfTheCache(t *testing.T) {
	t.Parallel()
	var rc readCache
	value := make([]byte, 4<<10)
	n := 0
	for rc.put(model.Cell{Table: "t", Row: fmt.Sprint(n), Column: "neighbour"}, cachedCell{value: value, prefetched: true}) {
		n++
	}
	if want := readCacheBytes / 2 / len(value); n < want*9/10 || n > want {
		t.Errorf("%d neighbours of %d bytes", n, len(value))
	}
	for rc.put(model.Cell{Table: "t", Row: fmt.Sprint(n), Column: "small"}, cachedCell{prefetched: true}) {
		n++
	}
	if rc.close(model.Cell{Table: "t", Row: "0"}); rc.known[model.Cell{Table: "t", Row: "0"}] {
		t.Error("that a row has no more columns is kept although there is no room")
	}
	asked := model.Cell{Table: "t", Row: "0", Column: "asked"}
	if !rc.put(asked, cachedCell{value: value}) {
		t.Error("there is no room for what was asked for")
	}
	before := rc.bytes
	if rc.put(asked, cachedCell{value: value, prefetched: true}); rc.bytes != before || rc.cells[asked].prefetched {
		t.Error("a cell is kept twice, or taken for one that nobody asked for")
	}
}
