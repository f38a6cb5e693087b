package simulation

import (
	"fmt"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// conduct judges what processes send for their own transactions, as rules forbid what does harm
// only when much else coincides. It judges no process that was ever suspended: its clock, or what
// it knows, may be old.
type conduct struct {
	timing model.Timing

	mu        sync.Mutex
	processes map[string]*process
	own       map[tso.Timestamp]*conducted // transactions, by their start timestamps
	entries   map[tso.Timestamp]bool       // those to which the journal has led
}

// conducted is what a process has sent for a transaction of its own.
type conducted struct {
	process   string
	committed time.Time // its commit request was sent first; zero: never
	primary   [2]string // table and row of that
	marked    bool      // a marker was sent
	knew      bool      // that the safepoint is above the transaction, when it was sent first
	cleared   bool      // locks were erased
}

// meet takes notice of a process.
func (c *conduct) meet(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes == nil {
		c.processes, c.own, c.entries = map[string]*process{}, map[tso.Timestamp]*conducted{}, map[tso.Timestamp]bool{}
	}
	c.processes[p.name] = p
}

// died reports whether a process was killed.
func (c *conduct) died(process string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[process]
	return p != nil && p.Dead()
}

// applied takes notice of changes that the store has applied.
func (c *conduct) applied(changes []store.Change) {
	for i := range changes {
		if changes[i].Kind != store.PutVersion || changes[i].Family != layout.JournalFamily {
			continue
		}
		entries, err := journal.DecodeBatch(changes[i].Value)
		if err != nil { // it is no batch
			continue
		}
		c.mu.Lock()
		for _, e := range entries {
			c.entries[e.StartTS] = true
		}
		c.mu.Unlock()
	}
}

// sent takes notice of changes that a process sends, and that do not arrive after until. It returns
// what is wrong with them.
func (c *conduct) sent(process string, bulk bool, until time.Time, table, row string, changes []store.Change) (wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[process]
	if p == nil || p.client == nil {
		return nil
	}
	wrong = c.outdated(p, until, table, row, changes)
	for i := range changes {
		ch := &changes[i]
		switch put := ch.Kind == store.PutVersion; {
		case put && ch.Family == layout.LockFamily:
			if c.own[ch.From] == nil {
				c.own[ch.From] = &conducted{process: process}
			}
		case ch.Kind == store.EraseVersions && ch.Family == layout.LockFamily && bulk:
			// Only an abort does so without a condition, but phase two.
			if t := c.own[ch.From]; t != nil && t.process == process && t.knew && !t.cleared && t.committed.IsZero() && p.gate.ran() {
				t.cleared = true
				wrong = append(wrong, fmt.Sprintf("%s has rolled its transaction %d back, although it knew that the safepoint was above (J8)", process, ch.From))
			}
		case put && ch.Family == layout.WriteFamily:
			r, err := layout.DecodeWrite(layout.CellTime(ch.From), ch.Value)
			if t := c.own[r.StartTS]; err == nil && t != nil && t.process == process && p.gate.ran() {
				wrong = append(wrong, c.judge(p, t, r, records(changes), history.Cell{Table: table, Row: row, Column: ch.Column})...)
			}
		}
	}
	return wrong
}

// outdated is what is wrong with changes that may arrive later than a drain after the process has
// read the meta row: whoever has stored something there since waits no longer (I14, I16, I20). A
// process rolls its own transactions back, and keeps their locks alive, whatever it knows.
func (c *conduct) outdated(p *process, until time.Time, table, row string, changes []store.Change) []string {
	if table == model.MetaTable || table == model.JournalTable || !p.gate.ran() || c.ofOwn(p.name, changes) {
		return nil
	}
	_, asOf := p.client.Engine().Meta.Snapshot()
	late := until.Sub(asOf) - c.timing.RequestLifetime - c.timing.MetaMaxAge
	if late <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s sends what may arrive at %s/%q %v after a drain that began when it had read the meta row", p.name, table, row, late)}
}

// ofOwn reports whether changes roll back a transaction of a process, or refresh a lock of it.
func (c *conduct) ofOwn(process string, changes []store.Change) bool {
	if !rollsBack(changes) && (len(changes) != 1 || changes[0].Kind != store.PutVersion || changes[0].Family != layout.LockFamily) {
		return false
	}
	t := c.own[changes[0].From]
	return t != nil && t.process == process
}

// records is how many records are among changes.
func records(changes []store.Change) (n int) {
	for i := range changes {
		if changes[i].Kind == store.PutVersion && changes[i].Family == layout.WriteFamily {
			n++
		}
	}
	return n
}

// judge judges a record or a marker that a process sends for its own transaction, with so many
// together.
func (c *conduct) judge(p *process, t *conducted, r layout.WriteRecord, together int, at history.Cell) (wrong []string) {
	if r.Kind != layout.KindRollback {
		switch {
		case t.committed.IsZero():
			t.committed, t.primary = time.Now(), [2]string{at.Table, at.Row}
		case time.Since(t.committed) > c.timing.RequestLifetime && t.primary == [2]string{at.Table, at.Row} && together > 1:
			// Elsewhere, and alone, a cell may be rolled forward by others in the process.
			wrong = append(wrong, fmt.Sprintf("%s sends the commit request of its transaction %d to %v once more after %v (I14)",
				p.name, r.StartTS, at, time.Since(t.committed)))
		}
		return wrong
	}
	// Only the first attempt shows what was known when the roll back began. A commit request that
	// may be under way is given up within its lifetime, which collection awaits. A collector or a
	// reader in the same process may make the marker too: what an abort does after that tells them
	// apart.
	if known, _ := p.client.Engine().Meta.Snapshot(); !t.marked {
		t.knew = c.entries[r.StartTS] && r.StartTS <= known.Safepoint
	}
	t.marked = true
	return nil
}
