package model

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Collection tells how far a cycle has come and what it did.
type Collection struct {
	Phase     CollectionPhase // "" when there never was a cycle
	Safepoint tso.Timestamp   // what the cycle collects up to
	Started   tso.Timestamp   // oracle's time
	Updated   tso.Timestamp   // oracle's time when the collector last saved
	Table     string          // all before it, by name, are done; others may be further
	Row       string          `json:"-"` // rows of Table before this one are done
	Page      string          `json:"-"` // the table of the last page; tables take turns
	Holder    string          // the collector at work; "": none
	Expires   tso.Timestamp   // when its lease ends

	Locks      int64 // resolved
	Rows       int64 // read in search of garbage
	Versions   int64 // cells of Bigtable removed
	Tombstones int64 // deleted cells removed with their last record
	Expired    int64 // values that had expired and were deleted, so that observers hear of it
	Postponed  int64 // cells left to the next cycle: an old lock, or a deletion not yet observed
	Corrupt    int64 // cells that cannot be decoded, left as they are
	Dispatched int64 // notifications below the safepoint that the journal missed
	// Rows in which garbage was removed without reading them, because a client had told what it
	// overwrote; Versions does not count that. Of these rows one in 128 is read and compared:
	// Contradicted are those that are otherwise than was told, none unless the protocol is broken.
	Unread, Contradicted int64
}

// CollectionPhase is a step of a cycle.
type CollectionPhase string

// The phases of a cycle, in order.
const (
	CollectionDrain   CollectionPhase = "drain"
	CollectionResolve CollectionPhase = "resolve"
	CollectionErase   CollectionPhase = "erase"
	CollectionDone    CollectionPhase = "done"
)

// CollectorConfig configures a collector. The zero value is useful.
type CollectorConfig struct {
	// Interval is the pause between two cycles. 0: a twelfth of Config.Retention. At least 1 s.
	Interval time.Duration
	// Lease is how long, by the oracle's clock, a collector that died keeps others from continuing
	// its work. 0: 1 min. At least 1 s.
	Lease time.Duration
	// RowsPerSecond bounds how fast tables are read. 0: 5,000.
	RowsPerSecond int
	// Progress, if set, is called after every page and step, from the goroutine that collects.
	Progress func(Collection)
	// Waiting, if set, is called with the time that a cycle is about to drain, by the same
	// goroutine.
	Waiting func(time.Duration)
}

// Limits of holds.
const (
	// MaxHoldTTL is the longest time for which a hold can be taken or extended at once.
	MaxHoldTTL = 7 * 24 * time.Hour
	// MaxHoldReasonBytes bounds the text, in UTF-8, that says what a hold is for. Beyond it
	// TakeHold returns ErrInvalidArgument.
	MaxHoldReasonBytes = 256
	// MaxHolds is how many holds an instance may have before TakeHold refuses more: every client
	// reads them with the safepoint. TakeHold counts first and stores afterwards, so concurrent
	// calls may exceed it.
	MaxHolds = 1000
)

// Hold promises that collection removes nothing that a snapshot at Timestamp reads, until Expires.
type Hold struct {
	ID        string
	Timestamp tso.Timestamp
	Expires   tso.Timestamp // by the oracle's clock
	Reason    string        // for the people who read the list
	// To is what copies that began beside this hold can be repaired to; 0: it is no hold for
	// copies. Collection stood still before, with the GC watermark right below Timestamp. A lock
	// from below that had outlived it, so its transaction never committed (J8).
	To tso.Timestamp
}
