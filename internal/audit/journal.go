package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
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

// rowName names a row of a table.
type rowName struct{ table, key string }

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
	a.entries, a.parked = map[rowName][]journalEntry{}, map[string]tso.Timestamp{}
	low := map[string]uint64{}
	err := read(ctx, model.JournalTable, func(r layout.Row) {
		switch {
		case len(r.Key) == 33 && r.Key[0] == 0x40:
			for _, it := range r.Items {
				a.parked[r.Key+it.Column] = max(a.parked[r.Key+it.Column], tso.Timestamp(it.Timestamp/1000))
			}
		case len(r.Key) == 18 && r.Key[0] == 0x41:
			for _, it := range r.Items {
				if it.Column == "low" {
					low[r.Key[1:]] = max(low[r.Key[1:]], uint64(it.Timestamp/1000))
				}
			}
		case len(r.Key) != 25 || r.Key[0] >= 0x40:
			a.findJournal(r, "its key is of no stream")
		default:
			entries, ok := a.batch(r)
			if !ok {
				a.findJournal(r, "its entries cannot be decoded")
			}
			for _, e := range entries {
				a.entries[e.name] = append(a.entries[e.name], e.journalEntry)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("audit: table %q: %w", model.JournalTable, err)
	}
	for _, list := range a.entries {
		for i, e := range list {
			list[i].settled = e.row.seq < low[e.row.key[:17]]
		}
	}
	return nil
}

func (a *auditor) findJournal(r layout.Row, text string) {
	a.find(RuleDecodable, model.JournalTable, r.Key, "", "the row at Bigtable's timestamp %d: "+text, r.Items[0].Timestamp)
}

// namedRow is a row that an entry names.
type namedRow struct {
	journalEntry
	name rowName
}

// batch decodes a row of a stream: version, names of tables, then entries: start_ts, whether there
// is a primary, that, and rows. Names are their lengths and bytes.
func (a *auditor) batch(r layout.Row) (list []namedRow, ok bool) {
	i := slices.IndexFunc(r.Items, func(it layout.Item) bool { return it.Column == "batch" })
	if i < 0 || len(r.Items[i].Value) == 0 || r.Items[i].Value[0] != 1 {
		return nil, false
	}
	row := &journalRow{key: r.Key, seq: binary.BigEndian.Uint64([]byte(r.Key[17:]))}
	a.journal = append(a.journal, row)
	b := bytesOf{rest: r.Items[i].Value[1:]}
	var tables []string
	for range b.number() {
		if tables = append(tables, b.name()); b.bad {
			return nil, false
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
		a.report.Entries++
		row.newest = max(row.newest, e.start)
		for range b.number() {
			head := b.number()
			name := rowName{table(head >> 2), b.name()}
			if b.bad {
				return nil, false
			}
			e.weak = head&2 != 0
			list = append(list, namedRow{e, name})
		}
	}
	return list, !b.bad
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
	entries := a.entries[rowName{t.name, key}]
	for _, c := range cells {
		for _, l := range c.locks {
			if !slices.ContainsFunc(entries, func(e journalEntry) bool { return e.start == l.start }) {
				a.stray = append(a.stray, strayLock{l.start, model.Cell{Table: t.name, Row: key, Column: c.column}})
			}
		}
		if !c.broken {
			a.committed(c, entries)
		}
		a.parkedOf(t, key, c, cells)
		if t.notifies(c.column) && !a.cfg.SkipNotifications {
			a.notified(c, entries, cells)
		}
	}
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
			a.findCell(c, RuleEntry, "no entry names the record of transaction %d at %d", r.Start, r.Commit)
		}
	}
}

// notified checks that an entry that is not settled leads to each notification of a column for
// which no observer is parked. One without a transaction (J2) leads to older ones too: a sweep
// announces what it finds.
func (a *auditor) notified(c *auditedCell, entries []journalEntry, cells map[string]*auditedCell) {
	for _, ts := range c.notify {
		if parked(cells, c.column) >= ts {
			continue
		}
		if !slices.ContainsFunc(entries, func(e journalEntry) bool { return !e.settled && (e.start <= ts || !e.primary && e.weak) }) {
			a.findCell(c, RuleEntry, "nothing in the journal leads to the notification at %d", ts)
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
	if a.parked[parkedRow(t.name, key, of)+"parked:"+observer] < c.state {
		a.findCell(c, RuleParked, "the journal does not list the observer that is parked up to %d", c.state)
	}
}

// parkedRow is the row of the journal for a cell: 0x40, and the SHA-256 of its names, each after
// its length.
func parkedRow(names ...string) string {
	h := sha256.New()
	for _, s := range names {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	return string(h.Sum([]byte{0x40}))
}

// keeps reports whether a row may keep an entry from going (J7).
func (a *auditor) keeps(t *auditedTable, e journalEntry, cells map[string]*auditedCell) bool {
	watermark := a.report.GCWatermark
	for _, c := range cells {
		if c.broken || slices.ContainsFunc(c.locks, func(l auditedLock) bool { return l.start <= watermark }) ||
			slices.ContainsFunc(c.records, func(r Record) bool { return r.Start == e.start && r.Commit > watermark }) {
			return true
		}
		if strings.HasPrefix(c.column, "\x00weak\x00") && len(c.markers) > 0 {
			return true
		}
		if base, ok := c.newest(watermark); ok && base.Kind == 'D' && len(c.notify) > 0 {
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
			a.find(RuleEntry, l.cell.Table, l.cell.Row, l.cell.Column, "no entry names the lock of transaction %d, which committed at %d", l.start, t.commit)
		}
	}
	for _, row := range a.journal {
		if a.cfg.Collected && row.newest <= a.report.GCWatermark && !row.needed {
			a.find(RuleGarbage, model.JournalTable, row.key, "", "a row of the journal whose newest entry is at %d, and needed for nothing", row.newest)
		}
	}
}

// journalState reads whether the journal is still being built, and what it is complete from.
func journalState(b []byte) (building bool, since tso.Timestamp) {
	var st struct {
		Building string
		Since    tso.Timestamp
	}
	return json.Unmarshal(b, &st) != nil || st.Building != "", st.Since
}
