package layout

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// Committed is what the same read would have seen had the lock been resolved before: its record in
// place of the lock, and its data, which prewrite had put beside it. Nothing written to the cell
// since can be visible to the reader: a transaction that prewrites the cell after the lock is gone
// takes a later commit timestamp (I5), above the reader's own. So the reader need not look again.
// window grows with the added record. Versions may have many readers, so Committed copies them.
//
// No such shortcut leads past a lock that was rolled back. A transaction counts as rolled back if
// its primary holds nothing, but a primary that was committed and collected while the reader was
// stopped looks the same. The lock is gone then, so the cell takes no harm, but the collector may
// have removed the versions beneath it (I16): only the cell can say.
func (v *Versions) Committed(l LockRecord, commitTS tso.Timestamp, window int) (*Versions, int) {
	out := &Versions{Writes: slices.Clone(v.Writes), Data: v.Data}
	for _, other := range v.Locks {
		if other.StartTS != l.StartTS {
			out.Locks = append(out.Locks, other)
		}
	}
	out.Writes = append(out.Writes, WriteRecord{CommitTS: commitTS, StartTS: l.StartTS, Kind: l.Kind, Expires: l.Life.ExpiresAt(commitTS)})
	slices.SortFunc(out.Writes, func(a, b WriteRecord) int { return cmp.Compare(b.CommitTS, a.CommitTS) })
	return out, window + 1
}

// viewState is what versions say about a cell at a timestamp.
type viewState int

const (
	ViewAbsent   viewState = iota // never written, or deleted
	ViewValue                     // the value is at hand
	ViewLocked                    // a lock at or below the timestamp hides the answer
	ViewNeedData                  // the record is known, its data was not among the versions
	ViewDeeper                    // it saw only records that change nothing, maybe not all
	ViewCorrupt                   // a cell cannot be decoded
)

// view is the answer of At.
type view struct {
	State  viewState
	Lock   LockRecord
	Record WriteRecord
	Value  []byte
}

// At returns what a snapshot at ts sees. window is how many versions of each family were asked for.
// It is pure.
func (v *Versions) At(ts tso.Timestamp, window int) view {
	if v == nil {
		return view{State: ViewAbsent}
	}
	if v.Corrupt != nil {
		return view{State: ViewCorrupt}
	}
	for _, l := range v.Locks {
		if l.StartTS <= ts {
			return view{State: ViewLocked, Lock: l}
		}
	}
	for _, w := range v.Writes {
		switch {
		case w.CommitTS > ts || !w.Kind.Changes():
			continue
		case w.Kind == KindDelete || w.Expired(ts):
			return view{State: ViewAbsent, Record: w}
		}
		for _, d := range v.Data {
			if d.StartTS == w.StartTS {
				return view{State: ViewValue, Record: w, Value: d.Value}
			}
		}
		return view{State: ViewNeedData, Record: w}
	}
	if len(v.Writes) >= window {
		return view{State: ViewDeeper}
	}
	return view{State: ViewAbsent}
}

// Missed reports whether the data that a snapshot at ts sees was left out: all data that was seen
// is newer, or belongs to newer records.
func (v *Versions) Missed(ts tso.Timestamp) bool {
	for _, d := range v.Data {
		newer := func(w WriteRecord) bool { return w.StartTS == d.StartTS && w.CommitTS > ts }
		if d.StartTS <= ts && !slices.ContainsFunc(v.Writes, newer) {
			return false
		}
	}
	return len(v.Data) > 0
}

// DataAbove is the oldest version of data above ts that was seen; 0: none was.
func (v *Versions) DataAbove(ts tso.Timestamp) (above tso.Timestamp) {
	for _, d := range v.Data {
		if d.StartTS > ts && (above == 0 || d.StartTS < above) {
			above = d.StartTS
		}
	}
	return above
}

// LastRun finds the start timestamp of the newest run at ts, a lock that hides it, or that more
// versions are needed. It is pure.
func (v *Versions) LastRun(ts tso.Timestamp, window int) (last tso.Timestamp, lock *LockRecord, deeper bool) {
	if v == nil {
		return 0, nil, false
	}
	for i := range v.Locks {
		if v.Locks[i].StartTS <= ts {
			return 0, &v.Locks[i], false
		}
	}
	for _, w := range v.Writes {
		switch {
		case w.CommitTS > ts:
		case w.Kind == KindLock:
			return w.StartTS, nil, false
		case w.Kind == KindDelete: // the observer has been forgotten since
			return 0, nil, false
		}
	}
	return 0, nil, len(v.Writes) >= window
}
