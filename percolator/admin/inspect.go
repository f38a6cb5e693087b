package admin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An inspection shows what is stored and changes nothing. A read resolves the locks that it meets
// (section 2.2 of the paper), and so destroys what an operator who looks for a fault wants to see.
// An inspection sends only ReadRows, and asks the oracle about timestamps and sessions (the client
// has a session, like any other). It judges locks as a reader would, and says what a reader would
// do about them.

// Limits of one inspection.
const (
	// MaxInspectCells is the most Bigtable cells that InspectRow shows of each of the four
	// families of a row. Beyond it InspectRow returns ErrInvalidArgument.
	MaxInspectCells = 20_000
	// MaxInspectColumns is how many columns InspectOptions.Columns may name. Their names may have
	// 2 KiB together, less about 10 bytes for each. Beyond it InspectRow returns
	// ErrInvalidArgument.
	MaxInspectColumns = 64
	// MaxInspectValueBytes is the longest beginning of a value that InspectRow returns. Beyond it
	// InspectRow returns ErrInvalidArgument.
	MaxInspectValueBytes = 1 << 20

	defaultInspectVersions   = 100
	defaultInspectCells      = 5_000
	defaultInspectBytes      = 64 << 20
	defaultInspectValueBytes = 256
)

// InspectOptions selects what InspectRow shows. The zero value is useful.
type InspectOptions struct {
	// Columns are the columns to show, with what observers have left for them. None: all. At most
	// MaxInspectColumns.
	Columns []string
	// AsOf is the snapshot of which RowInspection tells what a reader sees. 0: the oracle's
	// present. Not in its future.
	AsOf tso.Timestamp
	// Versions is how many cells of each column and family are shown, the newest ones. 0: 100. At
	// most Cells.
	Versions int
	// Cells is how many cells of each family are shown. 0: 5,000. At most MaxInspectCells. The
	// columns that do not fit are left out.
	Cells int
	// Bytes is how many bytes of values InspectRow reads to learn their sizes. 0: 64 MiB. The last
	// answer may exceed it, by about 4 MiB or one value. Sizes that it did not learn are -1.
	Bytes int64
	// Values returns the values as well, the first ValueBytes of each. Otherwise InspectRow returns
	// only sizes and names of what users have stored.
	Values bool
	// ValueBytes is the longest beginning of a value. 0: 256. At most MaxInspectValueBytes.
	ValueBytes int
}

// withDefaults fills in what is zero and refuses what is beyond the limits.
func (o InspectOptions) withDefaults() (InspectOptions, error) {
	fill := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	fill(&o.Cells, defaultInspectCells)
	fill(&o.Versions, min(defaultInspectVersions, o.Cells))
	fill(&o.ValueBytes, defaultInspectValueBytes)
	o.Bytes = cmp.Or(o.Bytes, defaultInspectBytes)
	bad := func(format string, args ...any) (InspectOptions, error) {
		return o, fmt.Errorf("percolator: %w: InspectOptions.%s", model.ErrInvalidArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Cells < 1 || o.Cells > MaxInspectCells:
		return bad("Cells must be between 1 and %d", MaxInspectCells)
	case o.Versions < 1 || o.Versions > o.Cells:
		return bad("Versions must be between 1 and Cells (%d)", o.Cells)
	case o.ValueBytes < 1 || o.ValueBytes > MaxInspectValueBytes:
		return bad("ValueBytes must be between 1 and %d", MaxInspectValueBytes)
	case o.Bytes < 0 || o.AsOf < 0:
		return bad("Bytes and AsOf must not be negative")
	case len(o.Columns) > MaxInspectColumns || inspectNames(o.Columns) > model.MaxFilterBytes:
		return bad("Columns may name %d columns, and no more than a filter holds: about 2 KiB of names, less 10 bytes for each", MaxInspectColumns)
	}
	o.Columns = slices.Compact(slices.Sorted(slices.Values(o.Columns)))
	return o, nil
}

// inspectNames is how many bytes names take in store.Inspected: twice in each family, with a
// frame around them.
func inspectNames(columns []string) (n int) {
	for _, c := range columns {
		n += len(layout.Families) * (2*len(c) + 20)
	}
	return n
}

// RowInspection is a row as it is stored, at one instant: one request returns what is shown of it,
// except for the sizes of values and the states of locks, which later requests return.
type RowInspection struct {
	Table, Row string
	Now        tso.Timestamp // oracle time after the read, by which locks age
	AsOf       tso.Timestamp // what Reader of each column refers to: InspectOptions.AsOf, or Now
	Safepoint  tso.Timestamp // snapshots at or below it are refused
	Watermark  tso.Timestamp // the GC watermark: nothing newer has been collected
	Columns    []ColumnInspection
	// Truncated says in words which limit left something out; "" if nothing was, but for versions
	// (ColumnInspection.More).
	Truncated string
}

// Empty reports that nothing is stored, or nothing in the columns that were asked for.
func (r RowInspection) Empty() bool { return len(r.Columns) == 0 }

// ColumnInspection is one column of a row, with what observers have left for it.
type ColumnInspection struct {
	Column         string
	Observed, Weak bool            // in the schema
	Type           percolator.Type // as declared; TypeBytes if it is not
	Versions       []VersionInspection
	More           bool // older versions exist beyond InspectOptions.Versions
	Reader         ReaderView
	Acks           []AckInspection       // of observers that have run or are running, by name
	States         []model.ObserverState // parked observers and those done beside one, by name
}

// VersionInspection is everything that a column has at one timestamp: a line of Figure 4 of the
// paper.
type VersionInspection struct {
	Timestamp tso.Timestamp    // 0 if no transaction has it; see Undecodable
	Data      *DataInspection  // nil: none; so are Lock and Write
	Lock      *LockInspection  // an uncommitted transaction holds the cell, or did
	Write     *WriteInspection // a commit, or the marker of a roll back
	Notify    bool             // observers may need to run
	// Undecodable are cells of this timestamp that do not follow the protocol.
	Undecodable []UndecodableCell
}

// DataInspection is a cell of the data family. Its timestamp is the start timestamp of the
// transaction that wrote it.
type DataInspection struct {
	Size  int64  // bytes; -1 if it was not read
	Value []byte // its beginning, with InspectOptions.Values; nil otherwise
	// CommitTS is that of the write record that names this version. 0: none of those that were read
	// does, because the transaction is not committed, was rolled back, or its record is older than
	// what is shown or collected.
	CommitTS tso.Timestamp
}

// WriteInspection is a cell of the write family. Its timestamp is the commit timestamp, or the
// start timestamp for a marker.
type WriteInspection struct {
	Kind    string        // "put", "delete", "lock" or "rollback"
	StartTS tso.Timestamp // of its transaction: where its data is
	// DataMissing says that the data of a put is not stored. Below RowInspection.Watermark a late
	// commit leaves that behind; above it is damage.
	DataMissing bool
}

// UndecodableCell is a cell that this package cannot have written, or a cell whose bytes have been
// damaged.
type UndecodableCell struct {
	Family    string
	Timestamp int64  // of Bigtable, in microseconds
	Size      int64  // bytes; -1 if it was not read
	Reason    string // what is wrong with it, without any of its bytes
}

// AckInspection is the acknowledgment of an observer for a column (c:ack_O of Figure 5 of the
// paper).
type AckInspection struct {
	Observer string
	// RanAt is the start timestamp of its last successful run; 0: it has not run, or was forgotten.
	RanAt       tso.Timestamp
	CommittedAt tso.Timestamp // when that run was committed
	// Due says that the column has changed since, as far as is decided: a worker will run it.
	Due         bool
	Lock        *LockInspection // of a run that is being committed, or whose worker has died
	Undecodable []UndecodableCell
}

// ReaderState is what a reader finds in a column.
type ReaderState string

// What a reader finds. ReaderWaits and ReaderCorrupt are the cases in which it gets no answer.
const (
	ReaderValue   ReaderState = "value"     // a value
	ReaderDeleted ReaderState = "deleted"   // nothing: the newest change is a deletion
	ReaderAbsent  ReaderState = "absent"    // nothing: there was no change up to the snapshot
	ReaderWaits   ReaderState = "waits"     // at a live lock, until its context ends
	ReaderTooOld  ReaderState = "too old"   // ErrSnapshotTooOld: at or below the safepoint
	ReaderCorrupt ReaderState = "corrupt"   // ErrCorrupt
	ReaderUnread  ReaderState = "not known" // it depends on older versions than were read
)

// ReaderView is what a reader with the snapshot RowInspection.AsOf finds in a column, and what it
// does on the way.
type ReaderView struct {
	State    ReaderState
	CommitTS tso.Timestamp // of the change that decides; 0: none
	StartTS  tso.Timestamp // of its transaction
	Size     int64         // of a value, in bytes; -1 if it was not read
	Value    []byte        // its beginning, with InspectOptions.Values
	// Resolves says what becomes of the lock that is in the way: LockRolledForward or
	// LockRolledBack, or LockAlive when there is none or it is waited for.
	Resolves model.Resolution
	Reason   string // with ReaderCorrupt and ReaderTooOld, without any value
}

// LockState is what a lock stands for, as its primary tells.
type LockState string

// The states of a lock.
const (
	LockStateAlive     LockState = "alive"     // undecided, and the owner may be alive: wait
	LockStateCommitted LockState = "committed" // committed: the next reader rolls it forward
	// Can no longer commit: the next reader erases it.
	LockStateRolledBack LockState = "rolled back"
	// Undecided, owner dead: the next reader rolls it back.
	LockStateDead LockState = "dead"
	// Lock or primary contradict the protocol: ErrCorrupt.
	LockStateUndecodable LockState = "undecodable"
)

// SessionState is what the oracle says about the session that a lock names.
type SessionState string

// The states of a session.
const (
	SessionNone    SessionState = "none"    // the lock names none: its TTL judges
	SessionOpen    SessionState = "open"    // it has not ended, as far as the oracle knows
	SessionEnded   SessionState = "ended"   // its client is closed or has died
	SessionUnknown SessionState = "unknown" // no answer, or no sessions: the TTL judges
)

// LockInspection is a stored lock and what it stands for. Of a lock that cannot be decoded only
// Cell, State and Reason are set, and StartTS where the timestamp allows it.
type LockInspection struct {
	model.Lock
	State    LockState
	CommitTS tso.Timestamp // with LockStateCommitted
	// Age is how long ago the transaction began, by the oracle's clock, when the lock was judged.
	Age time.Duration
	// Expires is when others may judge the transaction dead by its TTL: that of the primary's lock,
	// which alone is refreshed, or of this lock if the primary has none.
	Expires tso.Timestamp
	// PrimaryLocked says that the primary holds the transaction's lock. An undecided transaction
	// without it has not yet prewritten its primary, or has lost it.
	PrimaryLocked bool
	SessionState  SessionState
	Reason        string // with LockStateUndecodable: what is wrong, without any value
}

// Overdue returns how long the lock had been past Expires when it was judged. A negative result
// means that it had not expired yet.
func (l LockInspection) Overdue() time.Duration { return l.StartTS.Add(l.Age).Sub(l.Expires) }

// IsPrimary reports whether the lock is on its transaction's primary.
func (l LockInspection) IsPrimary() bool { return l.Primary == l.Cell }

// Resolvable reports whether ResolveLock would resolve the lock now.
func (l LockInspection) Resolvable() bool {
	return l.State == LockStateCommitted || l.State == LockStateRolledBack || l.State == LockStateDead
}

// LockOptions selects the locks that ListLocks lists. The zero value lists all.
type LockOptions struct {
	// OlderThan leaves out the locks of transactions that began less than this ago, by the oracle's
	// clock. 0: it leaves out none.
	OlderThan time.Duration
	PendingOptions
}
