package simulation

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// positions judge I22 by what the store applies: nothing commits in an export queue below a
// position that a run has moved there before. Its order suffers only if other entries are delivered
// at the right moment.
type positions struct {
	mu      sync.Mutex
	written map[positionAt]string  // values of positions, by the runs that write them
	moved   map[string][]position  // by the partition, as rows name it
	added   map[string][]queued    // entries that have committed, likewise
	told    map[tso.Timestamp]bool // transactions that are judged
}

// positionAt is what a run writes.
type positionAt struct {
	row   string
	start tso.Timestamp
}

// position is where a run with a snapshot has moved it.
type position struct {
	slice    string
	snapshot tso.Timestamp
}

// queued is an entry.
type queued struct {
	row           string
	start, commit tso.Timestamp
}

// Rows and columns of an export queue's table, as package exportqueue lays them out.
const (
	positionRows   = "position."
	positionColumn = "slice"
	partDigits     = 3
)

// note takes notice of changes of a row, and returns what is wrong with them.
func (p *positions) note(table, row string, changes []store.Change) (wrong []string) {
	if !workload.Exports(table) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written == nil {
		p.written, p.moved, p.added, p.told = map[positionAt]string{}, map[string][]position{}, map[string][]queued{}, map[tso.Timestamp]bool{}
	}
	partition, isPosition := strings.CutPrefix(row, positionRows)
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Kind != store.PutVersion || isPosition && c.Column != positionColumn || strings.HasPrefix(c.Column, layout.Reserved):
		case isPosition && c.Family == layout.DataFamily:
			p.written[positionAt{row, c.From}] = string(c.Value)
		case c.Family == layout.WriteFamily:
			r, err := layout.DecodeWrite(layout.CellTime(c.From), c.Value)
			switch slice := p.written[positionAt{row, r.StartTS}]; {
			case err != nil || r.Kind != layout.KindPut:
			case !isPosition && len(row) > partDigits:
				wrong = append(wrong, p.add(table+" "+row[:partDigits], queued{row, r.StartTS, r.CommitTS})...)
			case isPosition && slice != "":
				wrong = append(wrong, p.move(table+" "+partition, position{slice, r.StartTS})...)
			}
		}
	}
	return wrong
}

func (p *positions) add(partition string, e queued) (wrong []string) {
	p.added[partition] = append(p.added[partition], e)
	for _, at := range p.moved[partition] {
		wrong = append(wrong, p.judge(at, e)...)
	}
	return wrong
}

func (p *positions) move(partition string, at position) (wrong []string) {
	p.moved[partition] = append(p.moved[partition], at)
	for _, e := range p.added[partition] {
		wrong = append(wrong, p.judge(at, e)...)
	}
	return wrong
}

func (p *positions) judge(at position, e queued) []string {
	if e.commit <= at.snapshot || e.row >= at.slice || p.told[e.start] {
		return nil
	}
	p.told[e.start] = true
	return []string{fmt.Sprintf("transaction %d has an entry in %s and committed at %d, when a run at %d had moved the position to %s (I22)",
		e.start, e.row, e.commit, at.snapshot, at.slice)}
}
