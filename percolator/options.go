package percolator

import (
	"time"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/internal/reads"
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

// MaxAttempts ends Update after n conflicts with the last ErrConflict. Without it only the context does.
func MaxAttempts(n int) TxnOption { return txnOption(func(o *commit.TxnOptions) { o.MaxAttempts = n }) }

// Blind is for transactions that read nothing: Get, GetMulti, Scan, GetForUpdate and Insert give ErrInvalidArgument. Its
// start timestamp has been asked for ahead, which saves the oracle's round trip. As nothing is read, an older start
// timestamp cannot show stale data. It may lie up to a quarter of Config.LockTTL before Begin, and a transaction never overwrites what was
// committed after its start timestamp: so this one may conflict with a write that was over before it began. Update tries again with a
// fresh one.
func Blind() TxnOption { return txnOption(func(o *commit.TxnOptions) { o.Blind = true }) }

// LockReads makes the transaction conflict with every concurrent writer of a cell that it has read: each cell that Get, GetMulti, Scan
// or ScanIndex answers for is locked as GetForUpdate locks it. Absence that Get or GetMulti found counts, of a scan the entries that
// were handed out, of ScanIndex the indexed cells. So there is no write skew on what was read (G2-item in the terms of Adya and of
// the Hermitage suite; section 2.2 of the paper allows it under snapshot isolation).
//
// Not prevented are phantoms: what comes to lie in a scanned range later, or came after the snapshot, was not read and is not locked.
// A transaction that depends on nothing being there needs a cell that stands for the range – a guard that everybody who
// adds to the range writes as well, such as a count – and must read that.
//
// What it costs: a cell that is read is prewritten and committed like one that is written, so it counts towards MaxTxnBytes
// (ErrTooLarge from the read, which buffers none of the call's locks, or ends the scan before the entry; the transaction stays usable) and towards
// MaxColumnsPerRow (ErrTooLarge from Commit). Two transactions that read one cell under LockReads conflict with each other. A transaction that
// only read commits for real, and its Commit can fail with ErrConflict. Columns that were only prefetched are not locked, nor are
// weak columns, which nobody writes, nor what Acknowledge reads.
//
// Together with Blind it is ErrInvalidArgument.
func LockReads() TxnOption { return txnOption(func(o *commit.TxnOptions) { o.LockReads = true }) }

// AsOf reads the snapshot at time t: what had been committed by then, by the oracle's clock. Older than the retention is
// ErrSnapshotTooOld, unless a hold keeps it (Client.TakeHold); before the first possible timestamp (2025) or later than the oracle's present is ErrInvalidArgument, because it would not be repeatable.
func AsOf(t time.Time) ReadOption { return AsOfTimestamp(tso.At(t)) }

// AsOfTimestamp reads the snapshot at ts, under the rules of AsOf.
func AsOfTimestamp(ts tso.Timestamp) ReadOption {
	return readOption(func(o *reads.ReadOptions) { o.AsOf, o.Set = ts, true })
}

// MaxStaleness lets the snapshot be as old as d: of the newest timestamp that this client has got from the oracle, for whatever purpose,
// if it was asked for within d by this process's clock, and of a new one otherwise. A client that is busy then reads without the
// oracle's round trip. The snapshot contains everything that was committed more than d ago, by whomever, and all that this client had
// committed by the time of the call. Two such snapshots of one client are in order; those of two clients need not be. 0 is a new timestamp; negative, or
// together with AsOf, it is ErrInvalidArgument.
func MaxStaleness(d time.Duration) ReadOption {
	return readOption(func(o *reads.ReadOptions) { o.Staleness = d })
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
