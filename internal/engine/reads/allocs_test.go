package reads

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// TestAllocations bounds what it takes to group reads; that of store says how.
func TestAllocations(t *testing.T) {
	var cells []model.Cell
	for i := range 10 {
		cells = append(cells, model.Cell{Table: "t", Row: fmt.Sprint("row", i), Column: "title"})
	}
	c := new(Reader)
	var groups []*readGroup
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"group 1 read", 7, func() { groups = c.groupReads(cells[:1]) }},
		{"group reads of 10 rows", 135, func() { groups = c.groupReads(cells) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, got, c.most)
		}
	}
	runtime.KeepAlive(groups)
}
