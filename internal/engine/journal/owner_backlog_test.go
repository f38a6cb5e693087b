package journal

import (
	"flag"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

var backlog = flag.Int("backlog", 20_000, "unsettled entries in TestBacklogCostsABoundedRate")

// A client whose notifications nobody takes looks at each of its entries soon, and then at no more
// than OwnerRows rows a second, however many there are. It remembers as many as it may; what is
// beyond takes no memory that grows with it.
func TestBacklogCostsABoundedRate(t *testing.T) {
	for _, limit := range []int{MaxOwned, 5000} {
		synctest.Test(t, func(t *testing.T) { testBacklog(t, limit) })
	}
}

func testBacklog(t *testing.T, limit int) {
	const perRow, perEntry, each = 20, 3, 10_000 // entries of a row, rows of an entry, rows appended a second
	o, before := NewOwner(), memory()
	o.Limit(limit)
	sent := 0        // entries
	var looked []int // rows of tables in each second
	second := func() {
		n := 0
		for due := o.Due(time.Now(), 1); len(due) > 0; due = o.Due(time.Now(), 1) {
			d, rows := due[0], 1
			var out Outcome
			if d.Unread() {
				d.End(1000 / (perRow * perEntry))
				rows = len(d.Seqs)
			}
			for _, seq := range d.Seqs {
				out.Left = append(out.Left, leftRow(seq, entriesOf(perRow, perEntry)...))
			}
			out.Rows = rows * (perRow*perEntry + 1)
			n += rows * perRow * perEntry
			o.Looked(d, out)
		}
		looked = append(looked, n)
		if o.owned > limit+perRow || len(o.cells) > 0 {
			t.Fatalf("%d entries are remembered", o.owned)
		}
		time.Sleep(time.Second)
	}
	for seq := uint64(1); sent < *backlog; seq++ {
		var parts []*part
		for _, e := range entriesOf(perRow, perEntry) {
			e.StartTS = tso.Timestamp(seq)
			parts = append(parts, &part{entry: &e, of: &Append{entry: &e}})
		}
		o.sent("stream", seq, parts)
		if sent += perRow; sent*perEntry%each < perRow*perEntry {
			second()
		}
	}
	rows := sent * perEntry
	used := memory() - before
	if most := 700*limit + 64<<10; used > most {
		t.Errorf("%d bytes, want at most %d", used, most)
	}
	if total, u := o.Appended(), o.Unsettled(); total != uint64(rows) || u.Rows != sent/perRow {
		t.Errorf("%d rows were named, want %d; %d wait, want %d", total, rows, u.Rows, sent/perRow)
	}
	for range 10 {
		second() // the first looks at the last ones
	}
	busy := 0 // rows in the busiest ten seconds
	for i := 10; i <= len(looked); i++ {
		busy = max(busy, sum(looked[i-10:i]))
	}
	if most := 10 * (2*each + OwnerRows); busy > most {
		t.Errorf("%d rows in ten seconds while %d were appended in each, want at most %d", busy, each, most)
	}
	if all := sum(looked); all < rows {
		t.Errorf("%d rows were looked at, of %d", all, rows)
	}
	looked = nil
	const long = 1200
	for range long {
		second()
	}
	later := sum(looked) / long
	if most := OwnerRows * 11 / 10; later > most || later < min(most/2, rows/400) {
		t.Errorf("%d rows a second later, want at most %d", later, most)
	}
	t.Logf("%d entries in %d rows of the journal: %d rows in the busiest ten seconds, %d a second later; %d remembered, %d KiB", sent, sent/perRow, busy, later, o.owned, used>>10)
}

// entriesOf is n entries that name so many rows each.
func entriesOf(n, names int) (entries []model.JournalEntry) {
	for range n {
		entries = append(entries, model.JournalEntry{StartTS: 1, Rows: make([]model.JournalName, names)})
	}
	return entries
}

// leftRow is a row of which entries are left, and nothing was found.
func leftRow(seq uint64, entries ...model.JournalEntry) LeftRow {
	l := LeftRow{Seq: seq}
	for _, e := range entries {
		l.Entries = append(l.Entries, LeftEntry{JournalEntry: e})
	}
	return l
}

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

// memory is what the process uses.
func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
