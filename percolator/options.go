package percolator

import (
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/tso"
)

// TxnOption changes how a transaction runs.
type TxnOption interface{ applyTxn(*commit.TxnOptions) }

// ReadOption changes which snapshot is read.
type ReadOption interface{ applyRead(*reads.ReadOptions) }

type txnOption func(*commit.TxnOptions)

func (f txnOption) applyTxn(o *commit.TxnOptions) { f(o) }

type readOption func(*reads.ReadOptions)

func (f readOption) applyRead(o *reads.ReadOptions) { f(o) }

// MaxAttempts ends Update after n attempts, with the last ErrConflict. n ≤ 0, or without it: only
// the context ends Update.
func MaxAttempts(n int) TxnOption { return txnOption(func(o *commit.TxnOptions) { o.MaxAttempts = n }) }

// Blind declares that the transaction reads nothing: Get, GetMulti, Scan, ScanIndex, GetForUpdate
// and Insert return ErrInvalidArgument. The client takes a start timestamp that it asked for ahead
// of time, which saves the round trip to the oracle. That timestamp may lie before Begin by up to a
// quarter of Config.LockTTL, and an eighth of Config.Retention.
//
// Without reads an old start timestamp cannot show stale data. But a transaction never overwrites
// what was committed after its start timestamp, so a blind one may conflict with a write that was
// done before it began. Update then tries again with a fresh timestamp. No other error comes from
// the old one: before Commit returns ErrUnique or ErrSnapshotTooOld, it checks again at a fresh
// timestamp, for one more request to the oracle.
func Blind() TxnOption { return txnOption(func(o *commit.TxnOptions) { o.Blind = true }) }

// LockReads makes the transaction conflict with every concurrent writer of a cell that it has read:
// it locks each cell that Get, GetMulti, Scan or ScanIndex answers for, as GetForUpdate does. That
// includes cells that Get or GetMulti found absent, the entries that a scan handed out, and the
// indexed cells of ScanIndex. So there is no write skew on what was read (G2-item in the terms of
// Adya and of the Hermitage suite), which snapshot isolation allows (section 2.2 of the paper).
//
// LockReads does not prevent phantoms: a cell that appears in a scanned range after the snapshot
// was not read and is not locked. A transaction that depends on the absence of rows needs a guard:
// a cell, such as a count, that every transaction that adds to the range writes as well, and that
// this transaction reads.
//
// The cost: a cell that is read is prewritten and committed like one that is written. It counts
// towards MaxTxnBytes: a read beyond that returns ErrTooLarge and buffers none of its locks, a scan
// ends before the entry, and the transaction stays usable. It counts towards MaxColumnsPerRow:
// beyond that Commit returns ErrTooLarge. Two transactions that read one cell under LockReads
// conflict with each other. A transaction that only read commits for real, and its Commit can
// return ErrConflict. LockReads does not lock prefetched columns, weak columns (no transaction
// writes them), or what an acknowledgment reads.
//
// Together with Blind it is ErrInvalidArgument.
func LockReads() TxnOption { return txnOption(func(o *commit.TxnOptions) { o.LockReads = true }) }

// AsOf reads the snapshot at time t: everything committed by then, by the oracle's clock. A t older
// than the retention is ErrSnapshotTooOld, unless a hold keeps it (admin.Admin.TakeHold). A t
// before the first possible timestamp (2025), or later than the oracle's present, is
// ErrInvalidArgument: a snapshot of the future would not be repeatable.
func AsOf(t time.Time) ReadOption { return AsOfTimestamp(tso.At(t)) }

// AsOfTimestamp reads the snapshot at ts, under the rules of AsOf.
func AsOfTimestamp(ts tso.Timestamp) ReadOption {
	return readOption(func(o *reads.ReadOptions) { o.AsOf, o.Set = ts, true })
}

// MaxStaleness lets the snapshot be as old as d. The client reads at the newest timestamp that it
// has received from the oracle for any purpose, if it requested that one at most d ago. So a busy
// client reads without a round trip to the oracle. The age is what the machine's monotonic or wall
// clock shows, whichever is more: the monotonic one may stop while the machine is suspended. The
// client requests a new timestamp otherwise, and if collection has passed the old one or an import
// or an index's backfill has ended since.
//
// The snapshot contains everything that any client committed more than d ago, and all that this
// client had committed by the time of the call. Two such snapshots of one client are in order;
// those of two clients need not be. 0 asks for a new timestamp. A negative d, or one together with
// AsOf, is ErrInvalidArgument.
func MaxStaleness(d time.Duration) ReadOption {
	return readOption(func(o *reads.ReadOptions) { o.Staleness, o.Bounded = d, true })
}

// AtLeast reads a snapshot that is not older than ts, a commit timestamp that Update or Commit has
// returned in this or another process: it contains that transaction and all that committed before
// it. So whoever hands ts over with a request, such as in a cookie, reads their own writes
// anywhere. ts 0 stands for no commit and changes nothing.
//
// The client reads at the newest timestamp that it has received from the oracle, if that is ts or
// greater; otherwise it requests a new one. The snapshot may be as old as ts, unless MaxStaleness
// also bounds its age.
//
// Errors: ErrInvalidArgument for a ts in the oracle's future (no commit timestamp of this oracle
// is), a negative one, and together with AsOf.
func AtLeast(ts tso.Timestamp) ReadOption {
	return readOption(func(o *reads.ReadOptions) { o.AtLeast = ts })
}

func txnOptions(opts []TxnOption) (o commit.TxnOptions) {
	for _, opt := range opts {
		opt.applyTxn(&o)
	}
	return o
}

func readOptions(opts []ReadOption) (o reads.ReadOptions) {
	for _, opt := range opts {
		opt.applyRead(&o)
	}
	return o
}
