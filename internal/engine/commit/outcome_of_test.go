package commit

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/tso"
)

// TestOutcomeOf: a commit without an acknowledgment is decided by what the primary shows; where
// that is nothing, it is never called aborted when the record may have been collected (I17).
func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	const start = tso.Timestamp(100)
	for _, c := range []struct {
		name      string
		status    locks.TxnStatus
		watermark tso.Timestamp
		want      outcome
	}{
		{"record", locks.TxnStatus{State: locks.TxnCommitted}, 0, outcomeCommitted},
		{"record below the watermark", locks.TxnStatus{State: locks.TxnCommitted}, start + 1, outcomeCommitted},
		{"lock", locks.TxnStatus{State: locks.TxnLocked}, 0, outcomeOpen},
		{"lock below the watermark", locks.TxnStatus{State: locks.TxnLocked}, start, outcomeOpen},
		{"marker", locks.TxnStatus{State: locks.TxnRolledBack}, 0, outcomeAborted},
		{"marker below the watermark", locks.TxnStatus{State: locks.TxnRolledBack}, start + 1, outcomeAborted},
		{"nothing", locks.TxnStatus{State: locks.TxnUnknown}, start - 1, outcomeAborted},
		{"nothing at the watermark", locks.TxnStatus{State: locks.TxnUnknown}, start, outcomeCollected},
		{"nothing below the watermark", locks.TxnStatus{State: locks.TxnUnknown}, start + 1, outcomeCollected},
	} {
		if got := outcomeOf(c.status, start, c.watermark); got != c.want {
			t.Errorf("%s: outcome %d, want %d", c.name, got, c.want)
		}
	}
}
