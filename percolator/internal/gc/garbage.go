package gc

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What can be removed of a row, once no client reads anything at or below the GC watermark and
// every lock up to it is resolved. For each cell:
//
//	base ← the newest put or delete at or below the watermark
//	                                           what the oldest readable snapshot sees
//	records older than base, and their data    no snapshot reaches them
//	markers and lock records at or below it    their transactions are decided everywhere
//	data at or below it that no record names and no lock holds
//	                                           transactions that were rolled back left it
//	base itself, if it has expired there       with its data: every snapshot that can be read sees
//	                                           none (I27)
//	base itself, if it is a deletion           its absence says the same; erased last, and only
//	                                           if no observer is behind
//
// An acknowledgment has no puts and deletes; its newest lock record is kept as long as the observed
// cell exists.
//
// Everything that is listed here stays garbage for good, whatever happens to the row meanwhile. So
// two collectors, or one that was stopped for an hour between reading and erasing, do no harm. The
// one exception, the base that is a deletion, is erased on a condition.

// erasure removes versions of one cell.
type erasure struct {
	family, column string
	from, to       tso.Timestamp // half open
	versions       int           // that were seen there
}

func erase(family, column string, at tso.Timestamp) erasure {
	return erasure{family, column, at, at + 1, 1}
}

func (e erasure) apply(mut *store.Mutation) {
	mut.EraseBetween(e.family, e.column, e.from, e.to)
}

// tombstone is the end of a cell: the deletion that is all it consists of, and its acknowledgments
// if nothing newer is there. It requires that no notify cell is left on the column: an observer
// that is behind would miss the deletion.
type tombstone struct {
	column   string
	erasures []erasure
	expired  bool // the cell's newest change is a put that has expired
}

func versionsOf(erasures []erasure) (n int) {
	for _, e := range erasures {
		n += e.versions
	}
	return n
}

// maxErasures is how many of them one row gets in a cycle: Bigtable takes 100,000 mutations of a
// row at once.
const maxErasures = 20_000

// rowGarbage is what can be removed of one row.
type rowGarbage struct {
	erasures   []erasure
	tombstones []tombstone
	postponed  int // columns left alone because of a lock, and erasures beyond the limit
	corrupt    []string
}

// cellGarbage is the same for one cell.
type cellGarbage struct {
	erasures []erasure
	last     *erasure // the base, where it is a deletion or names data that does not exist
	left     bool     // something of the cell remains besides last
	expired  bool     // last is a put that has expired, and nothing has changed the cell since
}

// collectible decides what of a row is garbage at the GC watermark. It is pure.
func collectible(row layout.RowVersions, watermark tso.Timestamp) rowGarbage {
	var g rowGarbage
	cells := map[string]cellGarbage{}
	acks := map[string][]string{} // of each column
	for _, col := range row.Columns() {
		v, c := row[col], cellGarbage{left: true}
		switch {
		case v.Corrupt != nil:
			g.corrupt = append(g.corrupt, col)
		case lockedAt(v, watermark):
			g.postponed++
		default:
			c = cellCollectible(v, col, watermark)
		}
		cells[col] = c
		g.erasures = append(g.erasures, c.erasures...)
		if of, _, ok := layout.Acknowledged(col); ok {
			acks[of] = append(acks[of], col)
		}
	}
	for _, col := range row.Columns() {
		if _, _, ack := layout.Acknowledged(col); !ack && cells[col].last != nil {
			if slices.ContainsFunc(acks[col], func(a string) bool { return cells[a].left }) {
				// An observer has run since the watermark. Only the deletion shows an export that
				// the observer was behind before.
				g.await(row, acks[col]...)
				continue
			}
			g.tombstones = append(g.tombstones, tombstoneOf(col, cells, acks[col]))
			if len(acks[col]) > 0 {
				g.await(row, col)
			}
		}
	}
	for of, columns := range acks {
		// Nothing of such a cell stays, or an earlier cycle removed it.
		if c := cells[of]; c.last == nil && !c.left {
			if v := tombstoneOf(of, cells, columns); len(v.erasures) > 0 {
				g.tombstones = append(g.tombstones, v)
			}
		}
	}
	return g
}

// await postpones the row while a cell that keeps garbage of another one does so by a lock: of a
// transaction that never commits nothing else leads back here (J8).
func (g *rowGarbage) await(row layout.RowVersions, columns ...string) {
	if slices.ContainsFunc(columns, func(c string) bool { return len(row[c].Locks) > 0 }) {
		g.postponed++
	}
}

// limit leaves to the next cycle what is too much for one request. Any part of the erasures is as
// good as all of them: none relies on another.
func (g *rowGarbage) limit() {
	if over := len(g.erasures) - maxErasures; over > 0 {
		g.erasures, g.postponed = g.erasures[:maxErasures], g.postponed+over
	}
}

// tombstoneOf gathers what goes with the last record of a cell: its acknowledgments, if the cell
// and they have nothing newer.
func tombstoneOf(col string, cells map[string]cellGarbage, acks []string) tombstone {
	v := tombstone{column: col}
	c := cells[col]
	if c.last != nil {
		v.erasures, v.expired = append(v.erasures, *c.last), c.expired
	}
	if c.left {
		return v
	}
	for _, ack := range acks {
		if a := cells[ack]; a.last != nil && !a.left {
			v.erasures = append(v.erasures, *a.last)
		}
	}
	return v
}

func lockedAt(v *layout.Versions, watermark tso.Timestamp) bool {
	return slices.ContainsFunc(v.Locks, func(l layout.LockRecord) bool { return l.StartTS <= watermark })
}

// cellCollectible decides for one cell without old locks.
func cellCollectible(v *layout.Versions, column string, watermark tso.Timestamp) cellGarbage {
	if _, _, ack := layout.Acknowledged(column); ack {
		return collectibleAck(v, column, watermark)
	}
	var g cellGarbage
	base, newest := base(v, watermark), base(v, tso.MaxTimestamp)
	g.left = len(v.Locks) > 0
	older := erasure{layout.WriteFamily, column, 0, base.CommitTS, 0}
	for _, w := range v.Writes {
		switch {
		case w.CommitTS > watermark:
			g.left = true
		case w.CommitTS < base.CommitTS:
			older.versions++
		case w.CommitTS > base.CommitTS: // a marker or lock record
			g.erasures = append(g.erasures, erase(layout.WriteFamily, column, w.CommitTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
	dataGarbage(v, &g, column, base, watermark)
	switch {
	case base.CommitTS == 0:
	case base.Kind == layout.KindPut && hasData(v, base.StartTS) && !base.Expired(watermark):
		g.left = true
	default:
		// The base says "nothing here", has expired, or is the trace of a commit that landed after
		// collection. The range takes along whatever lies under it: left behind, it would come back
		// to life.
		g.last = &erasure{layout.WriteFamily, column, 0, base.CommitTS + 1, 1}
		g.expired = base.Expired(watermark) && base == newest
	}
	return g
}

// base is the newest put or delete at or below the GC watermark; zero if there is none.
func base(v *layout.Versions, watermark tso.Timestamp) layout.WriteRecord {
	for _, w := range v.Writes {
		if w.CommitTS <= watermark && w.Kind.Changes() {
			return w
		}
	}
	return layout.WriteRecord{}
}

func hasData(v *layout.Versions, startTS tso.Timestamp) bool {
	return slices.ContainsFunc(v.Data, func(d layout.DataVersion) bool { return d.StartTS == startTS })
}

// dataGarbage finds data that no record from the base upwards names and no lock holds. What is
// older than all that is named goes in one range.
func dataGarbage(v *layout.Versions, g *cellGarbage, column string, base layout.WriteRecord, watermark tso.Timestamp) {
	named := map[tso.Timestamp]bool{}
	oldest := base.StartTS // no transaction that began before the base's can commit above it
	for _, w := range v.Writes {
		if w.Kind == layout.KindPut && w.CommitTS >= base.CommitTS && !(w == base && w.Expired(watermark)) {
			named[w.StartTS] = true
			oldest = min(oldest, w.StartTS)
		}
	}
	for _, l := range v.Locks {
		named[l.StartTS] = true
		oldest = min(oldest, l.StartTS)
	}
	older := erasure{layout.DataFamily, column, 0, oldest, 0}
	for _, d := range v.Data {
		switch {
		case named[d.StartTS] || d.StartTS > watermark:
			g.left = true
		case d.StartTS < oldest:
			older.versions++
		default:
			g.erasures = append(g.erasures, erase(layout.DataFamily, column, d.StartTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
}

// collectibleAck keeps the newest lock record, which says what the observer has seen. A deletion
// says that the observer was forgotten (ForgetObserver); nothing at all says the same.
func collectibleAck(v *layout.Versions, column string, watermark tso.Timestamp) (g cellGarbage) {
	g.left = len(v.Locks) > 0
	older := erasure{layout.WriteFamily, column, 0, 0, 0}
	seen := false
	for _, w := range v.Writes {
		switch {
		case w.CommitTS > watermark:
			g.left = true
		case seen:
			older.versions++
		case w.Kind == layout.KindDelete:
			older.to, older.versions, seen = w.CommitTS+1, 1, true
		case w.Kind == layout.KindLock:
			g.last = &erasure{layout.WriteFamily, column, 0, w.CommitTS + 1, 1}
			older.to, seen = w.CommitTS, true
		default: // a marker above the newest run
			g.erasures = append(g.erasures, erase(layout.WriteFamily, column, w.CommitTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
	return g
}

// MayBecomeGarbage reports whether a row holds something that is garbage, or will be without
// another commit to the row.
func MayBecomeGarbage(row layout.RowVersions) bool {
	g := collectible(row, tso.MaxTimestamp)
	return len(g.erasures) > 0 || len(g.tombstones) > 0 || g.postponed > 0
}

// Left reports what of a row the cycle up to watermark should have erased without a condition:
// records of transactions that committed, or nothing but what others have left.
func Left(row layout.RowVersions, watermark tso.Timestamp) (committed, other bool) {
	for _, e := range collectible(row, watermark).erasures {
		if other = true; e.family != layout.WriteFamily {
			continue
		}
		for _, w := range row[e.column].Writes {
			committed = committed || w.CommitTS >= e.from && w.CommitTS < e.to && w.Kind != layout.KindRollback
		}
	}
	return committed, other && !committed
}

// Completed is the GC watermark of a cycle that has come to its end; 0: it is not known now.
func Completed(ctx context.Context, e *engine.Engine) (tso.Timestamp, error) {
	st, err := collectorLease.Read(ctx, e)
	if err != nil || st.Phase == model.CollectionErase {
		return 0, err
	}
	m, err := e.Meta.Refresh(ctx)
	// The watermark may have been published meanwhile.
	if err != nil || st.Phase != model.CollectionDone && m.Watermark >= st.Safepoint {
		return 0, err
	}
	return min(m.Watermark, st.Safepoint), nil
}
