package model

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Limits of holds.
const (
	// MaxHoldTTL is the longest time for which a hold can be taken or extended at once.
	MaxHoldTTL = 7 * 24 * time.Hour
	// MaxHoldReasonBytes bounds the text, in UTF-8, that says what a hold is for.
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
