package reads

import (
	"sync"
	"sync/atomic"
	"time"
)

// readPolicy is what a client has learned about how to read its tables.
type readPolicy struct {
	tables sync.Map // name → *tablePolicy
	first  int64    // firstTrial; tests begin sooner
	probe  int64    // probeRows; tests need none
}

// tablePolicy is what is known of one table.
type tablePolicy struct {
	reads   atomic.Int64 // since the last trial of whole rows ended
	after   atomic.Int64 // how many of them go before the next one
	probing atomic.Bool  // a read probes whether rows are narrow
	narrow  atomic.Int64 // rows that were, in this trial
	probe   int64        // how many have to be before all reads ask for whole ones
	deep    atomic.Int64 // reads to come that look at two versions
	apart   atomic.Pointer[time.Time]
}

func (p *readPolicy) of(table string) *tablePolicy {
	if t, ok := p.tables.Load(table); ok {
		return t.(*tablePolicy)
	}
	t := &tablePolicy{probe: p.probe}
	t.after.Store(p.first)
	known, _ := p.tables.LoadOrStore(table, t)
	return known.(*tablePolicy)
}

// whole counts a read of one row, or of several. It reports whether the read asks for whole rows
// (wholerow.go), and whether it probes: a probe travels alone, and its caller calls probed after
// it.
func (t *tablePolicy) whole(several bool) (whole, probes bool) {
	switch {
	case t.reads.Load() < t.after.Load() && t.reads.Add(1) <= t.after.Load():
		return false, false
	case t.narrow.Load() >= t.probe:
		return true, false
	case several || t.probing.Swap(true):
		return false, false
	}
	return true, true
}

// probed ends a probe.
func (t *tablePolicy) probed(narrow bool) {
	if narrow {
		t.narrow.Add(1)
	}
	t.probing.Store(false)
}

// wide ends a trial of whole rows.
func (t *tablePolicy) wide() {
	after := t.after.Load()
	if t.reads.Load() < after || !t.after.CompareAndSwap(after, min(max(after, 1)*trialGrowth, lastTrial)) {
		return // another read has ended it
	}
	t.narrow.Store(0)
	t.reads.Store(0)
}

// When one version was not enough for a read, the next few reads of the table ask for two. Where
// transactions lock many cells that they only read (GetForUpdate, LockReads), the newest record
// often changes nothing, and with one version every reader would have to ask again. Where they lock
// few, a second version would only be bytes.
const (
	deepReads = 8 // for each read that had to look deeper
	mostDeep  = 256
)

// window is how many versions of a family a read asks for.
func (t *tablePolicy) window() int {
	if t.deep.Load() > 0 {
		t.deep.Add(-1)
		return 2
	}
	return 1
}

// deeper notes that one version was not enough.
func (t *tablePolicy) deeper() {
	if t.deep.Load() < mostDeep {
		t.deep.Add(deepReads)
	}
}

// travelAlone is how long reads of a table go alone after a batch that needed a second attempt.
const travelAlone = time.Second

// part makes reads of the table go alone for a while; alone reports whether they do.
func (t *tablePolicy) part() {
	until := time.Now().Add(travelAlone)
	t.apart.Store(&until)
}

func (t *tablePolicy) alone() bool {
	until := t.apart.Load()
	return until != nil && time.Now().Before(*until)
}

// ReadWholeRowsAfter begins the first trial of whole rows of a table after this many reads of it,
// without probes. It applies to tables that have not been read yet.
func (r *Reader) ReadWholeRowsAfter(reads int64) { r.policy.first, r.policy.probe = reads, 0 }

// ReadsWhole reports whether the next read of a table asks for whole rows.
func (r *Reader) ReadsWhole(table string) bool {
	t := r.policy.of(table)
	return t.reads.Load() >= t.after.Load()
}

// AllReadWhole reports whether every read of a table asks for whole rows: the probes are over.
func (r *Reader) AllReadWhole(table string) bool {
	return r.ReadsWhole(table) && r.policy.of(table).narrow.Load() >= r.policy.of(table).probe
}
