package console

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/gopercolator/percolator/percolator/model"
)

// contendedLine is a contended cell in all clients together.
type contendedLine struct {
	model.ContendedCell

	Clients int
}

// contended sums conflicts up by cell, the most contended first.
func contended(clients []client) []contendedLine {
	byCell := map[string]contendedLine{}
	for _, r := range clients {
		for _, c := range r.Stats.Contention.Cells {
			l := byCell[c.Cell]
			l.Cell, l.Conflicts, l.Waiting, l.Clients = c.Cell, l.Conflicts+c.Conflicts, l.Waiting+c.Waiting, l.Clients+1
			byCell[c.Cell] = l
		}
	}
	return slices.SortedFunc(maps.Values(byCell), func(a, b contendedLine) int {
		return cmp.Or(cmp.Compare(b.Conflicts, a.Conflicts), cmp.Compare(a.Cell, b.Cell))
	})
}

// cellName is a cell as errors name it, unless it was cut, or its acknowledgment.
var cellName = regexp.MustCompile(`^([^/"]+)/("(?:[^"\\]|\\.)*")/"(?:[^"\\]|\\.)*"(, acknowledgment of .*)?$`)

// Link is the inspector's address for the cell's row; "" for a name that was cut, and for a cell of
// an index.
func (l contendedLine) Link() string {
	m := cellName.FindStringSubmatch(l.Cell)
	if m == nil {
		return ""
	}
	row, err := strconv.Unquote(m[2])
	if err != nil {
		return ""
	}
	return rowLink(m[1], row)
}

// WaitingUpdates is how many Updates of all clients wait for an attempt.
func (p *page) WaitingUpdates() (n int64) {
	for _, c := range p.clients() {
		n += int64(c.Stats.Contention.Waiting)
	}
	return n
}
