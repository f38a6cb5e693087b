package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The journal names whatever is unfinished: each lock of a transaction that may commit (J1), each
// notification, until it was dealt with (J4), and each row that is to be collected (J7). The audit
// reads it before the tables, and then looks at each row for what the entries that name it allow.

// journalRow is a row of a stream.
type journalRow struct {
	key    string
	seq    uint64
	newest tso.Timestamp // of its entries
	needed bool          // a later cycle of collection has something to do for one of them
}

// journalEntry is an entry for one of the rows that it names.
type journalEntry struct {
	start         tso.Timestamp
	row           *journalRow
	primary, weak bool
	settled       bool // it stands below the low position of its stream
}

// strayLock is a lock that no entry names.
type strayLock struct {
	start tso.Timestamp
	cell  model.Cell
}

// readJournal reads all entries, unless the instance has no journal or is building it.
func (a *auditor) readJournal(ctx context.Context, read Source) error {
	if a.journaled = !a.cfg.SkipJournal && !a.cfg.Schema.DisableJournal && !a.building; !a.journaled {
		return nil
	}
	a.filed = map[layout.RowID][]tso.Timestamp{}
	a.entries, a.headers, a.listed = map[layout.RowID][]journalEntry{}, map[string]*journalHeader{}, map[string]*listedParked{}
	err := read(ctx, model.JournalTable, func(r layout.Row) {
		switch {
		case len(r.Key) == 33 && r.Key[0] == 0x40:
			a.parkedRow(r)
		case len(r.Key) == 18 && r.Key[0] == 0x41:
			a.header(r)
		case len(r.Key) == 25 && (r.Key[0] < 0x40 || r.Key[0] == 0x42):
			a.batch(r)
		default:
			a.findJournal(r, "its key is of no stream")
		}
	})
	if err != nil {
		return fmt.Errorf("audit: table %q: %w", model.JournalTable, err)
	}
	a.listedIn = map[layout.RowID][]*listedParked{}
	for _, l := range a.listed {
		name := layout.RowID{Table: l.cell.Table, Key: l.cell.Row}
		a.listedIn[name] = append(a.listedIn[name], l)
	}
	for _, list := range a.entries {
		for i, e := range list {
			if h := a.headers[e.row.key[:17]]; h != nil {
				list[i].settled = e.row.seq < h.low
			}
		}
	}
	return nil
}

func (a *auditor) findJournal(r layout.Row, text string) {
	a.find(model.RuleDecodable, model.JournalTable, r.Key, "", "the row at Bigtable's timestamp %d: "+text, r.Items[0].Timestamp)
}

// journalHeader is the header of a stream: where the entries begin that are not settled, and
// whether it names a client, even if none with a session.
type journalHeader struct {
	low   uint64
	owned bool
	at    tso.Timestamp
}

func (a *auditor) header(r layout.Row) {
	h := &journalHeader{}
	for _, it := range r.Items {
		h.at = max(h.at, tso.Timestamp(it.Timestamp/1000))
		switch it.Column {
		case "low":
			h.low = max(h.low, uint64(it.Timestamp/1000))
		case "session":
			var v struct{ Session string }
			if h.owned = json.Unmarshal(it.Value, &v) == nil; !h.owned {
				a.findJournal(r, "the header cannot be decoded")
			}
		}
	}
	a.headers[r.Key[1:]] = h
}

// namedRow is a row that an entry names.
type namedRow struct {
	journalEntry
	name layout.RowID
}

// batch takes in a row of a stream, or one that says in which rows of tables something expires.
func (a *auditor) batch(r layout.Row) {
	row := &journalRow{key: r.Key, seq: binary.BigEndian.Uint64([]byte(r.Key[17:]))}
	named, entries, ok := decodeBatch(r, row)
	if !ok {
		a.findJournal(r, "its entries cannot be decoded")
	}
	if r.Key[0] == 0x42 { // and then the time, and an id
		at := tso.Timestamp(binary.BigEndian.Uint64([]byte(r.Key[1:])))
		for _, e := range named {
			a.filed[e.name] = append(a.filed[e.name], at)
		}
		return
	}
	a.journal = append(a.journal, row)
	a.report.Entries += entries
	for _, e := range named {
		a.entries[e.name] = append(a.entries[e.name], e.journalEntry)
	}
}

// decodeBatch decodes entries: version, names of tables, then for each start_ts, whether there is a
// primary, that, and rows. Names are their lengths and bytes.
func decodeBatch(r layout.Row, row *journalRow) (list []namedRow, entries int, ok bool) {
	i := slices.IndexFunc(r.Items, func(it layout.Item) bool { return it.Column == "batch" })
	if i < 0 || len(r.Items[i].Value) == 0 || r.Items[i].Value[0] != 1 {
		return nil, entries, false
	}
	b := bytesOf{rest: r.Items[i].Value[1:]}
	var tables []string
	for range b.number() {
		if tables = append(tables, b.name()); b.bad {
			return nil, entries, false
		}
	}
	table := func(n uint64) string {
		if b.bad = b.bad || n >= uint64(len(tables)); b.bad {
			return ""
		}
		return tables[n]
	}
	for len(b.rest) > 0 && !b.bad {
		e := journalEntry{start: tso.Timestamp(b.number()), row: row}
		if e.primary = b.number() == 1; e.primary {
			table(b.number())
			b.name()
			b.name()
		}
		entries++
		row.newest = max(row.newest, e.start)
		for range b.number() {
			head := b.number()
			name := layout.RowID{Table: table(head >> 2), Key: b.name()}
			if b.bad {
				return nil, entries, false
			}
			e.weak = head&2 != 0
			list = append(list, namedRow{e, name})
		}
	}
	return list, entries, !b.bad
}

// bytesOf reads numbers and names; after it has failed, zeros.
type bytesOf struct {
	rest []byte
	bad  bool
}

func (b *bytesOf) number() uint64 {
	v, n := binary.Uvarint(b.rest)
	if b.bad = b.bad || n <= 0 || v > math.MaxInt64; b.bad {
		b.rest = nil
		return 0
	}
	b.rest = b.rest[n:]
	return v
}

func (b *bytesOf) name() string {
	n := b.number()
	if b.bad = b.bad || n > uint64(len(b.rest)); b.bad {
		return ""
	}
	s := string(b.rest[:n])
	b.rest = b.rest[n:]
	return s
}

// journalOf checks a row of a table against the entries that name it.
func (a *auditor) journalOf(t *auditedTable, key string, cells map[string]*auditedCell) {
	if !a.journaled {
		return
	}
	entries := a.entries[layout.RowID{Table: t.name, Key: key}]
	for _, c := range cells {
		for _, l := range c.locks {
			switch led := slices.ContainsFunc(entries, func(e journalEntry) bool { return e.start == l.start }); {
			case !led:
				a.stray = append(a.stray, strayLock{l.start, model.Cell{Table: t.name, Row: key, Column: c.column}})
			case a.dropped[l.primary.Table].At >= l.start:
				// The drop has resolved all locks that entries lead to.
				a.findCell(c, model.RulePrimary, "the lock of transaction %d has an entry, and its primary was in table %q, which was dropped", l.start, l.primary.Table)
			}
		}
		if !c.broken {
			a.committed(c, entries)
			a.expiring(c, entries)
		}
		a.parkedOf(t, key, c, cells)
		if t.notifies(c.column) && !a.cfg.SkipNotifications {
			a.notified(c, entries, cells, t.observed[c.column])
		}
	}
	a.besideListed(t.name, key, cells)
	for _, e := range entries {
		e.row.needed = e.row.needed || a.keeps(t, e, cells)
	}
}

// committed checks that an entry leads to whatever a record above the watermark makes garbage: what
// lies beneath it, or itself where it deletes. J7 keeps the entry of each such record.
func (a *auditor) committed(c *auditedCell, entries []journalEntry) {
	ack := strings.HasPrefix(c.column, "\x00ack\x00")
	for i, r := range c.records {
		if r.Commit <= a.report.GCWatermark || r.Start <= a.since || i == 0 && (r.Kind == 'P' || ack) {
			continue
		}
		if !slices.ContainsFunc(entries, func(e journalEntry) bool { return e.start == r.Start }) {
			a.findCell(c, model.RuleEntry, "no entry names the record of transaction %d at %d", r.Start, r.Commit)
		}
	}
}

// filedWithin is how much later than its expiry a value is filed: times are rounded up to minutes.
const filedWithin = 4096 * 1000 * 60

// expiring checks that the journal leads to a value when it has expired: an entry of its
// transaction, one without a primary, which stands for all before it, or the time of its expiry
// (J11).
func (a *auditor) expiring(c *auditedCell, entries []journalEntry) {
	r, ok := c.newest(tso.MaxTimestamp)
	if !ok || r.Expires <= a.report.GCWatermark || r.Start <= a.since ||
		slices.ContainsFunc(entries, func(e journalEntry) bool { return e.start == r.Start || !e.primary }) {
		return
	}
	filed := func(at tso.Timestamp) bool { return at >= r.Expires && at-r.Expires < filedWithin }
	if !slices.ContainsFunc(a.filed[layout.RowID{Table: c.table.name, Key: c.row}], filed) {
		a.findCell(c, model.RuleEntry, "nothing in the journal leads to the value that expires at %d", r.Expires)
	}
}

// notified checks that an entry that is not settled leads to each notification of a column for
// which no observer is parked. One without a transaction (J2) leads to older ones too: a sweep
// announces what it finds. Nothing leads to one that a repeated request set again after all of its
// observers, by their names, had run, and the entry was settled.
func (a *auditor) notified(c *auditedCell, entries []journalEntry, cells map[string]*auditedCell, names []string) {
	runs := lastRuns(c.column, cells)
	for _, ts := range c.notify {
		if parked(cells, c.column) >= ts {
			continue
		}
		led := slices.ContainsFunc(entries, func(e journalEntry) bool { return !e.settled && (e.start <= ts || !e.primary && e.weak) })
		switch behind := func(name string) bool { return runs[name] < ts }; {
		case led:
		case len(names) > 0 && !slices.ContainsFunc(names, behind), a.cfg.Repeated != nil && a.cfg.Repeated(c.table.name, c.row, c.column, ts):
			a.report.Repeated++
		default:
			a.findCell(c, model.RuleEntry, "nothing in the journal leads to the notification at %d", ts)
		}
	}
}

// parked is up to which notification of a column an observer is parked, as the row says.
func parked(cells map[string]*auditedCell, column string) (through tso.Timestamp) {
	for name, c := range cells {
		if rest, ok := strings.CutPrefix(name, "\x00park\x00"); ok {
			if _, of, _ := strings.Cut(rest, "\x00"); of == column {
				through = max(through, c.state)
			}
		}
	}
	return through
}

// keeps reports whether a row may keep an entry from going (J7).
func (a *auditor) keeps(t *auditedTable, e journalEntry, cells map[string]*auditedCell) bool {
	watermark := a.report.GCWatermark
	for _, c := range cells {
		if c.broken || slices.ContainsFunc(c.locks, func(l auditedLock) bool { return l.start <= watermark }) ||
			slices.ContainsFunc(c.records, func(r model.AuditedRecord) bool { return r.Start == e.start && r.Commit > watermark }) {
			return true
		}
		if strings.HasPrefix(c.column, "\x00weak\x00") && len(c.markers) > 0 {
			return true
		}
		if base, ok := c.newest(watermark); ok && (base.Kind == 'D' || expired(base, watermark)) && len(c.notify) > 0 {
			return true // observers have yet to see the deletion
		}
		if t.notifies(c.column) && slices.ContainsFunc(c.notify, func(ts tso.Timestamp) bool { return e.weak || ts <= watermark }) && parked(cells, c.column) == 0 {
			return true
		}
	}
	return false
}

func (t *auditedTable) notifies(column string) bool {
	_, observed := t.observed[column]
	return observed || t.weak[column]
}

// unjournaled judges what was only seen to be wrong when everything was read: locks without an
// entry, which are of transactions that never commit (J8), and rows of the journal that collection
// should have deleted.
func (a *auditor) unjournaled() {
	for _, l := range a.stray {
		if t := a.txns[l.start]; t.commit == 0 {
			a.report.StrayLocks++
		} else {
			a.find(model.RuleEntry, l.cell.Table, l.cell.Row, l.cell.Column, "no entry names the lock of transaction %d, which committed at %d", l.start, t.commit)
		}
	}
	rows := map[string]bool{}
	for _, row := range a.journal {
		rows[row.key[:17]] = true
		if a.cfg.Collected && row.newest <= a.report.GCWatermark && !row.needed {
			a.find(model.RuleGarbage, model.JournalTable, row.key, "", "a row of the journal whose newest entry is at %d, and needed for nothing", row.newest)
		}
	}
	for id, h := range a.headers {
		if a.cfg.Collected && !h.owned && !rows[id] {
			a.find(model.RuleGarbage, model.JournalTable, "\x41"+id, "low", "the position %d of a stream without a client and without rows", h.at)
		}
	}
	a.unparked()
}

// droppedTable tells until when a table was there.
type droppedTable struct{ At tso.Timestamp }

// journalState reads whether the journal is still being built, and what it is complete from.
func journalState(b []byte) (building bool, since tso.Timestamp) {
	var st struct {
		Building string
		Since    tso.Timestamp
	}
	return json.Unmarshal(b, &st) != nil || st.Building != "", st.Since
}
