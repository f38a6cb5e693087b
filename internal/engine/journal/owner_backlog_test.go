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

// A client whose notifications nobody takes looks at each of its entries at once, and then at no
// more than OwnerRows rows a second, however many there are; it remembers MaxOwned of them, and
// some 200 bytes for each row of the journal beyond.
func TestBacklogCostsABoundedRate(t *testing.T) {
	const perRow, perEntry, each = 20, 3, 10_000 // entries of a row, rows of an entry, rows appended a second
	synctest.Test(t, func(t *testing.T) {
		o, before := NewOwner(), memory()
		sent := 0        // entries
		var looked []int // rows of tables in each second
		second := func() {
			n := 0
			for _, l := range o.Due(time.Now(), *backlog) {
				n += perRow * perEntry
				var out Outcome
				if l.Unread {
					out.Left = make([]model.JournalEntry, perRow)
				}
				o.Looked(l, out)
			}
			looked = append(looked, n)
			if o.owned > MaxOwned+perRow || len(o.cells) > 0 {
				t.Fatalf("%d entries are remembered", o.owned)
			}
			time.Sleep(time.Second)
		}
		for seq := uint64(1); sent < *backlog; seq++ {
			var parts []*part
			for range perRow {
				e := &model.JournalEntry{StartTS: tso.Timestamp(seq), Rows: make([]model.JournalName, perEntry)}
				parts = append(parts, &part{entry: e, of: &Append{entry: e}})
			}
			o.sent("stream", seq, parts)
			if sent += perRow; sent*perEntry%each < perRow*perEntry {
				second()
			}
		}
		rows := sent * perEntry
		used := memory() - before
		if limit := 600*MaxOwned + 200*sent/perRow; used > limit {
			t.Errorf("%d bytes, want at most %d", used, limit)
		}
		if total := o.Appended(); total != uint64(rows) || o.named != rows {
			t.Errorf("%d rows were named, and %d wait, want %d", total, o.named, rows)
		}
		for range 10 {
			second() // the first looks at the last ones
		}
		busy := 0 // rows in the busiest ten seconds
		for i := 10; i <= len(looked); i++ {
			busy = max(busy, sum(looked[i-10:i]))
		}
		if limit := 10 * (2*each + OwnerRows); busy > limit {
			t.Errorf("%d rows in ten seconds while %d were appended in each, want at most %d", busy, each, limit)
		}
		looked = nil
		const long = 1200
		for range long {
			second()
		}
		later := sum(looked) / long
		if limit := OwnerRows * 11 / 10; later > limit || later < min(limit/2, rows/400) {
			t.Errorf("%d rows a second later, want at most %d", later, limit)
		}
		t.Logf("%d entries in %d rows of the journal: %d rows in the busiest ten seconds, %d a second later; %d remembered, %d KiB", sent, sent/perRow, busy, later, o.owned, used>>10)
	})
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
