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

// tablePolicy is what a client has learned about one table. Its phase follows from reads, after and
// narrow, each of which only counts up within a trial; wide ends the trial.
type tablePolicy struct {
	reads  atomic.Int64 // by name since the last trial ended; counts up to after
	after  atomic.Int64 // how many go before the next trial; grows from trial to trial
	narrow atomic.Int64 // rows that probes of this trial have found narrow; 0 before it
	enough int64        // of these before all reads ask for whole rows
	probed atomic.Bool  // a probe is in flight, one at most

	deep       atomic.Int64              // reads to come that ask for changes only, at most mostDeep and what a read adds
	aloneUntil atomic.Pointer[time.Time] // reads of the table are not sent together until then; nil: they are
}

// phase is how far a client is with finding out whether the rows of a table are narrow.
type phase int

const (
	naming   phase = iota // reads name their columns, for a while
	probing               // a trial has started: one read at a time is a probe, the others name columns
	allWhole              // enough rows were narrow: all reads ask for whole ones, until one is wide
)

func (t *tablePolicy) phase() phase {
	switch {
	case t.reads.Load() < t.after.Load():
		return naming
	case t.narrow.Load() < t.enough:
		return probing
	}
	return allWhole
}

func (p *readPolicy) of(table string) *tablePolicy {
	if t, ok := p.tables.Load(table); ok {
		return t.(*tablePolicy)
	}
	t := &tablePolicy{enough: p.probe}
	t.after.Store(p.first)
	known, _ := p.tables.LoadOrStore(table, t)
	return known.(*tablePolicy)
}

// ask counts a read of one row, or of several, and returns what it asks for. A probe goes alone,
// and its caller calls endProbe after it.
func (t *tablePolicy) ask(several bool) asked {
	switch t.phase() {
	case naming:
		t.reads.Add(1)
		return byName
	case allWhole:
		return wholeRow
	}
	if several || t.probed.Swap(true) {
		return byName
	}
	return probe
}

// endProbe ends a probe.
func (t *tablePolicy) endProbe(narrow bool) {
	if narrow {
		t.narrow.Add(1)
	}
	t.probed.Store(false)
}

// wide ends a trial of whole rows.
func (t *tablePolicy) wide() {
	after := t.after.Load()
	if t.phase() == naming || !t.after.CompareAndSwap(after, min(max(after, 1)*trialGrowth, lastTrial)) {
		return // another read has ended it
	}
	t.narrow.Store(0)
	t.reads.Store(0)
}

// When the newest record of a cell was of a lock or rollback, the next few reads of the table ask
// for the newest that changes the cell. Where transactions lock many cells that they only read
// (GetForUpdate, LockReads), most readers would have to ask again otherwise. Where they lock few,
// Bigtable need not look at the values of records.
const (
	deepReads = 8 // for each read that had to look deeper
	mostDeep  = 256
)

// changes reports whether a read asks for changes only.
func (t *tablePolicy) changes() bool {
	if t.deep.Load() > 0 {
		t.deep.Add(-1)
		return true
	}
	return false
}

// deeper notes that the newest record was not enough.
func (t *tablePolicy) deeper() {
	if t.deep.Load() < mostDeep {
		t.deep.Add(deepReads)
	}
}

// aloneFor is how long reads of a table go alone after a batch that needed a second attempt.
const aloneFor = time.Second

// readAlone makes reads of the table go alone for a while; alone reports whether they do.
func (t *tablePolicy) readAlone() {
	until := time.Now().Add(aloneFor)
	t.aloneUntil.Store(&until)
}

func (t *tablePolicy) alone() bool {
	until := t.aloneUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// ReadWholeRowsAfter starts the first trial of whole rows of a table after this many reads of it,
// without probes. It applies to tables that have not been read yet.
func (r *Reader) ReadWholeRowsAfter(reads int64) { r.policy.first, r.policy.probe = reads, 0 }

// ReadsWhole reports whether the next read of a table may ask for whole rows.
func (r *Reader) ReadsWhole(table string) bool { return r.policy.of(table).phase() != naming }

// AllReadWhole reports whether every read of a table asks for whole rows: the probes are done.
func (r *Reader) AllReadWhole(table string) bool { return r.policy.of(table).phase() == allWhole }
