package model

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Sweep tells how far a sweep has come and what it did.
type Sweep struct {
	Phase    SweepPhase    //  "" when there never was a sweep
	Building string        // the building that the sweep is for; "": it checks a ready journal
	Started  tso.Timestamp // oracle's time
	Updated  tso.Timestamp // oracle's time when it was last saved
	Table    string        // where it is
	Row      string        `json:"-"` // rows of Table are done before this one, back to its start
	Holder   string        // the process at work; "": none
	Expires  tso.Timestamp // when its lease ends

	Rows          int64 // read
	Announced     int64 // rows to which the journal leads now
	Locks         int64 // resolved
	Notifications int64 // dispatched
	Corrupt       int64 // cells that cannot be decoded, left as they are

	Missed  SweepMissed // by a journal that was ready
	Orphans int64       // rows with locks or markers of transactions that never committed (J8)
}

// SweepMissed counts what the journal should have led to.
type SweepMissed struct {
	Locks         int64 // of transactions that committed
	Notifications int64
	Garbage       int64 // rows with garbage that a cycle of the collector has left
}

// Sum is all of them: anything but 0 is a defect.
func (m SweepMissed) Sum() int64 { return m.Locks + m.Notifications + m.Garbage }

// SweepPhase is a step of a sweep.
type SweepPhase string

// The phases of a sweep, in order.
const (
	SweepDrain SweepPhase = "drain" // only of one that builds the journal
	SweepRows  SweepPhase = "rows"
	SweepDone  SweepPhase = "done"
)

// SweepConfig configures sweeps. The zero value is useful.
type SweepConfig struct {
	// Interval is the time from the beginning of one sweep to that of the next. 0: 7 days. At least
	// 1 s. A journal that is building is swept at once.
	Interval time.Duration
	// Lease is how long, by the oracle's clock, a sweep whose process died keeps others from
	// continuing it. 0: 1 min. At least 1 s.
	Lease time.Duration
	// RowsPerSecond bounds how fast tables are read. 0: 5,000.
	RowsPerSecond int
	// Progress, if set, is called after every page and step, from the goroutine that sweeps.
	Progress func(Sweep)

	// Wait waits for the drain of the given length. nil: by the clock.
	Wait func(context.Context, time.Duration) error
}
