package percolator

import (
	"sync"
	"sync/atomic"
	"time"
)

// readHabits is what a client has learned about how to read its tables.
type readHabits struct {
	tables sync.Map // name → *tableHabits
	first  int64    // firstTrial; tests begin sooner
}

// tableHabits is what is known of one table.
type tableHabits struct {
	reads atomic.Int64 // since the last trial of whole rows ended
	after atomic.Int64 // how many of them go before the next one
	deep  atomic.Int64 // reads to come that look at two versions
	apart atomic.Int64 // until when reads travel alone, in nanoseconds since 1970
}

func (h *readHabits) of(table string) *tableHabits {
	if t, ok := h.tables.Load(table); ok {
		return t.(*tableHabits)
	}
	t := new(tableHabits)
	t.after.Store(h.first)
	known, _ := h.tables.LoadOrStore(table, t)
	return known.(*tableHabits)
}

// whole counts a read and reports whether it is to ask for the whole row (wholerow.go).
func (t *tableHabits) whole() bool {
	return t.reads.Load() >= t.after.Load() || t.reads.Add(1) > t.after.Load()
}

// wide ends a trial of whole rows.
func (t *tableHabits) wide() {
	if t.reads.Load() < t.after.Load() {
		return // somebody else has ended it
	}
	t.after.Store(min(max(t.after.Load(), 1)*trialGrowth, lastTrial))
	t.reads.Store(0)
}

// deepReads is how many reads of a table ask for two versions after one that asked for one version had to look deeper.
const deepReads = 256

// window is how many versions of a family a read asks for. Where transactions lock cells that they only read (GetForUpdate, LockReads), the
// newest record often changes nothing, and with one version the reader would have to ask again.
func (t *tableHabits) window() int {
	if t.deep.Load() > 0 {
		t.deep.Add(-1)
		return 2
	}
	return 1
}

// deeper says that one version was not enough.
func (t *tableHabits) deeper() { t.deep.Store(deepReads) }

// travelAlone is how long reads of a table travel alone after a batch that did not come back.
const travelAlone = time.Second

// part makes reads of the table travel alone for a while, and alone reports whether they do.
func (t *tableHabits) part() { t.apart.Store(time.Now().Add(travelAlone).UnixNano()) }
func (t *tableHabits) alone() bool {
	return t.apart.Load() != 0 && time.Now().UnixNano() < t.apart.Load()
}
