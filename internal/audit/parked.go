package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The journal lists whatever is parked. A retry leaves the list as it is, so what is listed may be
// parked no more, until a cycle of collection sees that the notification has gone.

// listedParked is one observer of a cell that the journal lists as parked.
type listedParked struct {
	row     string // of the journal
	cell    model.Cell
	through tso.Timestamp // the newest notification that it is parked for
	beside  bool          // there is one up to that, or one may be hidden
}

// parkedRow takes in a row of the journal that lists who is parked for a cell: version, and table,
// row and column of the cell, and the state.
func (a *auditor) parkedRow(r layout.Row) {
	for _, it := range r.Items {
		b := bytesOf{bad: len(it.Value) == 0 || it.Value[0] != 1, rest: it.Value[min(len(it.Value), 1):]}
		l := &listedParked{row: r.Key, cell: model.Cell{Table: b.name(), Row: b.name(), Column: b.name()}, through: tso.Timestamp(it.Timestamp / 1000)}
		if b.name(); b.bad || len(b.rest) > 0 || parkedKey(l.cell.Table, l.cell.Row, l.cell.Column) != r.Key {
			a.findJournal(r, "what it lists as parked cannot be decoded")
			continue
		}
		if have := a.listed[r.Key+it.Column]; have == nil || have.through < l.through {
			a.listed[r.Key+it.Column] = l
		}
	}
}

// parkedOf checks that the journal lists an observer that c says to be parked for a notification.
func (a *auditor) parkedOf(t *auditedTable, key string, c *auditedCell, cells map[string]*auditedCell) {
	rest, ok := strings.CutPrefix(c.column, "\x00park\x00")
	if !ok {
		return
	}
	observer, of, _ := strings.Cut(rest, "\x00")
	n := cells[of]
	if n == nil || !t.notifies(of) || !slices.ContainsFunc(n.notify, func(ts tso.Timestamp) bool { return ts <= c.state }) {
		return // it means nothing (I19)
	}
	if l := a.listed[parkedKey(t.name, key, of)+"parked:"+observer]; l == nil || l.through < c.state {
		a.findCell(c, model.RuleParked, "the journal does not list the observer that is parked up to %d", c.state)
	}
}

// besideListed notes which of the observers that are listed for a row have a notification there.
func (a *auditor) besideListed(table, key string, cells map[string]*auditedCell) {
	const most = 64 // notifications of a column that collection looks at
	for _, l := range a.listedIn[layout.RowID{Table: table, Key: key}] {
		if n := cells[l.cell.Column]; n != nil {
			l.beside = len(n.notify) >= most || slices.ContainsFunc(n.notify, func(ts tso.Timestamp) bool { return ts <= l.through })
		}
	}
}

// unparked finds what is listed as parked beside no notification after a cycle of collection.
func (a *auditor) unparked() {
	for _, l := range a.listed {
		if a.cfg.Collected && l.through <= a.report.GCWatermark && !l.beside {
			a.find(model.RuleGarbage, model.JournalTable, l.row, "", "%s is listed as parked up to %d, and has no notification", l.cell, l.through)
		}
	}
}

// parkedKey is the row of the journal for a cell: 0x40, and the SHA-256 of its names, each after
// its length.
func parkedKey(names ...string) string {
	h := sha256.New()
	for _, s := range names {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	return string(h.Sum([]byte{0x40}))
}
