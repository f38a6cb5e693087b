package audit

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// auditedCell is one cell with all that the four families hold of it, oldest first.
type auditedCell struct {
	table       *auditedTable
	row, column string

	records []model.AuditedRecord // puts, deletes and lock records
	markers []tso.Timestamp
	locks   []auditedLock
	data    map[tso.Timestamp][]byte
	notify  []tso.Timestamp
	state   tso.Timestamp // of an observer's: the newest notification that it speaks of
	broken  bool          // something cannot be decoded
}

type auditedLock struct {
	start   tso.Timestamp
	primary model.Cell
}

// row checks all cells of a row.
func (a *auditor) row(t *auditedTable, r layout.Row) {
	a.report.Rows++
	cells := map[string]*auditedCell{}
	for _, it := range r.Items {
		c := cells[it.Column]
		if c == nil {
			c = &auditedCell{table: t, row: r.Key, column: it.Column, data: map[tso.Timestamp][]byte{}}
			cells[it.Column] = c
		}
		if !c.add(a, it) {
			c.broken = true
			a.find(model.RuleDecodable, t.name, c.row, c.column, "the cell of family %q at Bigtable's timestamp %d cannot be decoded", it.Family, it.Timestamp)
		}
	}
	for _, column := range slices.Sorted(maps.Keys(cells)) {
		c := cells[column]
		c.sort()
		if !c.broken {
			a.cell(c, cells)
		}
	}
	a.collectIndexed(t, cells)
	a.journalOf(t, r.Key, cells)
}

// add takes in one version; false if the protocol does not write such a one.
func (c *auditedCell) add(a *auditor, it layout.Item) bool {
	if it.Timestamp <= 0 || it.Timestamp%1000 != 0 {
		return false
	}
	ts := tso.Timestamp(it.Timestamp / 1000)
	switch it.Family {
	case "data":
		a.report.Data++
		c.data[ts] = it.Value
	case "notify":
		// These cells hold an observer's state, and are no notifications (I19).
		if strings.HasPrefix(c.column, "\x00park\x00") || strings.HasPrefix(c.column, "\x00done\x00") {
			c.state = max(c.state, ts)
			return true
		}
		a.report.Notifications++
		c.notify = append(c.notify, ts)
	case "lock":
		a.report.Locks++
		l, ok := auditLock(ts, it.Value)
		if !ok {
			return false
		}
		c.locks = append(c.locks, l)
		if a.oldest == 0 || l.start < a.oldest {
			a.oldest = l.start
		}
	case "write":
		a.report.Records++
		return c.addWrite(a, ts, it.Value)
	}
	return true
}

// addWrite decodes a write record: the start timestamp in eight bytes, then the kind, and of
// a put that expires 0x01 and when.
func (c *auditedCell) addWrite(a *auditor, ts tso.Timestamp, b []byte) bool {
	if len(b) < 9 {
		return false
	}
	r := model.AuditedRecord{Cell: model.Cell{Table: c.table.name, Row: c.row, Column: c.column}, Start: tso.Timestamp(binary.BigEndian.Uint64(b)), Commit: ts, Kind: b[8]}
	if b = b[9:]; r.Kind == 'P' && len(b) > 8 && b[0] == 1 {
		r.Expires = tso.Timestamp(binary.BigEndian.Uint64(b[1:]))
	}
	switch r.Kind {
	case 'R':
		if r.Start != ts {
			return false
		}
		c.markers = append(c.markers, ts)
	case 'P', 'D', 'L':
		if r.Start <= 0 || r.Start >= ts {
			return false
		}
		c.records = append(c.records, r)
	default:
		return false
	}
	a.record(r)
	return true
}

// auditLock decodes a lock as far as the audit needs it: version, kind, flag, time, TTL, then
// table, row and column of the primary and the session, each after its length; of a put that
// expires (version 2) how long it lives, and until when.
func auditLock(ts tso.Timestamp, b []byte) (l auditedLock, ok bool) {
	if len(b) < 11 || b[0] != 1 && (b[0] != 2 || b[1] != 'P') || !strings.ContainsRune("PDL", rune(b[1])) || b[2] > 1 {
		return l, false
	}
	numbers := 0 // behind the session
	if b[0] == 2 {
		numbers = 2
	}
	_, n := binary.Uvarint(b[11:])
	if n <= 0 {
		return l, false
	}
	b = b[11+n:]
	var fields [4]string
	for i := range fields {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return l, false
		}
		fields[i], b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	for range numbers {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return l, false
		}
		b = b[n:]
	}
	return auditedLock{ts, model.Cell{Table: fields[0], Row: fields[1], Column: fields[2]}}, len(b) == 0 && fields[1] != "" && fields[2] != ""
}

func (c *auditedCell) sort() {
	slices.SortFunc(c.records, func(a, b model.AuditedRecord) int { return cmp.Compare(a.Commit, b.Commit) })
	slices.Sort(c.markers)
	slices.Sort(c.notify)
	slices.SortFunc(c.locks, func(a, b auditedLock) int { return cmp.Compare(a.start, b.start) })
}

// newest is the newest put or delete at or below ts; false if there is none.
func (c *auditedCell) newest(ts tso.Timestamp) (model.AuditedRecord, bool) {
	for _, r := range slices.Backward(c.records) {
		if r.Commit <= ts && r.Kind != 'L' {
			return r, true
		}
	}
	return model.AuditedRecord{}, false
}

// expired reports whether no snapshot from ts on sees the value of a put.
func expired(r model.AuditedRecord, ts tso.Timestamp) bool { return r.Expires != 0 && r.Expires <= ts }

// cell checks one cell. cells are those of its row.
func (a *auditor) cell(c *auditedCell, cells map[string]*auditedCell) {
	a.writers(c)
	a.values(c)
	if names, ok := c.table.observed[c.column]; ok && !a.cfg.SkipNotifications {
		a.observed(c, cells, names)
	}
	if a.cfg.Collected {
		a.garbage(c)
		a.unused(c, cells)
	}
}

func (a *auditor) findCell(c *auditedCell, r model.AuditRule, text string, args ...any) {
	a.find(r, c.table.name, c.row, c.column, text, args...)
}

// writers checks locks, records and markers against each other.
func (a *auditor) writers(c *auditedCell) {
	for i, l := range c.locks {
		if i > 0 {
			a.findCell(c, model.RuleOneLock, "transactions %d and %d both hold it", c.locks[i-1].start, l.start)
		}
		if !a.tables[l.primary.Table] && !(a.journaled && a.dropped[l.primary.Table].At >= l.start) {
			a.findCell(c, model.RulePrimary, "the lock of transaction %d names a primary in table %q", l.start, l.primary.Table)
		}
		if slices.Contains(c.markers, l.start) {
			a.findCell(c, model.RuleLockOrWrite, "transaction %d holds it and was rolled back on it", l.start)
		}
	}
	for i, r := range c.records {
		if i > 0 && r.Start <= c.records[i-1].Commit {
			before := c.records[i-1]
			a.findCell(c, model.RuleOverlap, "transaction %d, committed at %d, and transaction %d, committed at %d, overlap", before.Start, before.Commit, r.Start, r.Commit)
		}
		if slices.Contains(c.markers, r.Start) {
			a.findCell(c, model.RuleMarker, "transaction %d committed at %d and was rolled back on it", r.Start, r.Commit)
		}
		for _, l := range c.locks {
			switch {
			case l.start == r.Start:
				a.findCell(c, model.RuleLockOrWrite, "transaction %d committed at %d and still holds it", l.start, r.Commit)
			case l.start <= r.Commit:
				a.findCell(c, model.RuleOverlap, "transaction %d holds it although transaction %d committed at %d", l.start, r.Start, r.Commit)
			}
		}
	}
}

// values checks that puts have data and records name all data.
func (a *auditor) values(c *auditedCell) {
	named := map[tso.Timestamp]bool{}
	for _, l := range c.locks {
		named[l.start] = true
	}
	for _, r := range c.records {
		named[r.Start] = named[r.Start] || r.Kind == 'P'
		switch _, there := c.data[r.Start]; {
		case r.Kind != 'P' || there:
		case r.Commit <= a.report.GCWatermark:
			a.report.LateRecords++
		default:
			a.findCell(c, model.RuleData, "the put record at %d names data at %d, which does not exist", r.Commit, r.Start)
		}
	}
	for ts := range c.data {
		switch {
		case named[ts]:
		case ts > a.report.GCWatermark:
			a.report.Orphans++
		case a.cfg.Collected:
			a.findCell(c, model.RuleGarbage, "nothing names the data at %d", ts)
		}
	}
}

// lastRuns is when each observer of a column last ran for it, as far as acknowledgments tell.
func lastRuns(column string, cells map[string]*auditedCell) map[string]tso.Timestamp {
	runs := map[string]tso.Timestamp{}
	for name, ack := range cells {
		rest, ok := strings.CutPrefix(name, "\x00ack\x00")
		observer, of, _ := strings.Cut(rest, "\x00")
		if !ok || of != column {
			continue
		}
		for _, r := range ack.records {
			if r.Kind == 'L' {
				runs[observer] = max(runs[observer], r.Start)
			}
		}
	}
	return runs
}

// observed checks that observers will run, or have run, for the newest change: the notify cell is
// written with the record, and goes when every observer has acknowledged.
func (a *auditor) observed(c *auditedCell, cells map[string]*auditedCell, names []string) {
	change, ok := c.newest(tso.MaxTimestamp)
	if !ok || slices.ContainsFunc(c.notify, func(ts tso.Timestamp) bool { return ts >= change.Commit }) {
		return
	}
	runs := lastRuns(c.column, cells)
	if names == nil {
		for _, run := range runs {
			if run > change.Commit {
				return
			}
		}
		a.findCell(c, model.RuleObserved, "no notify cell and no acknowledgment for the change at %d", change.Commit)
	}
	for _, name := range names {
		if runs[name] < change.Commit {
			a.findCell(c, model.RuleObserved, "no notify cell for the change at %d, and observer %q last ran at %d", change.Commit, name, runs[name])
		}
	}
}

// garbage checks what a cycle of collection has left at or below its watermark. A deletion that an
// observer has yet to see may stay.
func (a *auditor) garbage(c *auditedCell) {
	watermark := a.report.GCWatermark
	ack := strings.HasPrefix(c.column, "\x00ack\x00")
	for _, ts := range c.markers {
		if ts <= watermark {
			a.findCell(c, model.RuleGarbage, "a rollback marker at %d", ts)
		}
	}
	var kept []model.AuditedRecord
	for _, r := range c.records {
		switch {
		case r.Commit > watermark:
		case r.Kind == 'L' && !ack:
			a.findCell(c, model.RuleGarbage, "a lock record at %d", r.Commit)
		default:
			kept = append(kept, r)
		}
	}
	for _, l := range c.locks {
		if l.start <= watermark {
			a.findCell(c, model.RuleGarbage, "a lock of transaction %d", l.start)
		}
	}
	for _, r := range kept[:max(len(kept)-1, 0)] {
		a.findCell(c, model.RuleGarbage, "a record at %d below a newer one", r.Commit)
	}
	if len(kept) == 1 && kept[0].Kind == 'D' && len(c.notify) == 0 {
		a.findCell(c, model.RuleGarbage, "the deletion at %d", kept[0].Commit)
	}
	if _, observed := c.table.observed[c.column]; len(kept) == 1 && expired(kept[0], watermark) && !observed {
		a.findCell(c, model.RuleGarbage, "a put at %d that expired at %d", kept[0].Commit, kept[0].Expires)
	}
}

// unused checks that no acknowledgment is left of a cell that is gone.
func (a *auditor) unused(c *auditedCell, cells map[string]*auditedCell) {
	rest, ok := strings.CutPrefix(c.column, "\x00ack\x00")
	if !ok || len(c.locks) > 0 || slices.ContainsFunc(c.records, func(r model.AuditedRecord) bool { return r.Commit > a.report.GCWatermark }) {
		return
	}
	_, of, _ := strings.Cut(rest, "\x00")
	if cell := cells[of]; cell == nil || len(cell.records)+len(cell.locks)+len(cell.notify) == 0 {
		a.findCell(c, model.RuleGarbage, "an acknowledgment of a cell that is gone")
	}
}
