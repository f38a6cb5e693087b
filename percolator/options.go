package percolator

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// TxnOption changes how a transaction runs.
type TxnOption interface{ applyTxn(*txnOptions) }

// ReadOption changes which snapshot is read.
type ReadOption interface{ applyRead(*readOptions) }

type txnOptions struct {
	maxAttempts int
	blind       bool
	retry       bool // after a conflict: no prefetched start timestamp, which may be as old as the last
}

type readOptions struct {
	asOf tso.Timestamp
	set  bool
}

type txnOption func(*txnOptions)

func (f txnOption) applyTxn(o *txnOptions) { f(o) }

type readOption func(*readOptions)

func (f readOption) applyRead(o *readOptions) { f(o) }

// MaxAttempts ends Update after n conflicts with the last ErrConflict. Without it only the context does.
func MaxAttempts(n int) TxnOption { return txnOption(func(o *txnOptions) { o.maxAttempts = n }) }

// Blind is for transactions that read nothing: Get, GetMulti, Scan, GetForUpdate and Insert give ErrInvalidArgument. Its
// start timestamp has been asked for ahead, which saves the oracle's round trip. As nothing is read, an older start
// timestamp cannot show stale data; it only makes a conflict with a write that happened in between possible.
func Blind() TxnOption { return txnOption(func(o *txnOptions) { o.blind = true }) }

// AsOf reads the snapshot at time t: what had been committed by then, by the oracle's clock. Older than the retention is
// ErrSnapshotTooOld; before the first possible timestamp (2025) or later than the oracle's present is ErrInvalidArgument, because it would not be repeatable.
func AsOf(t time.Time) ReadOption { return AsOfTimestamp(tso.At(t)) }

// AsOfTimestamp reads the snapshot at ts, under the rules of AsOf.
func AsOfTimestamp(ts tso.Timestamp) ReadOption {
	return readOption(func(o *readOptions) { o.asOf, o.set = ts, true })
}
