package percolator

import (
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// What can be removed of a row, once nothing at or below the mark is read any more and every lock up to it is resolved. For each cell:
//
//	base ← the newest put or delete at or below the mark           what the oldest readable snapshot sees
//	records older than base, and their data                        no snapshot reaches them
//	markers and lock records at or below the mark                  their transactions are decided everywhere
//	data at or below the mark that nothing names and no lock holds  left by transactions that were rolled back
//	base itself, if it is a deletion                               nothing is what it says; last, and only if no observer is behind
//
// An acknowledgment has no puts and deletes; its newest lock record is kept as long as the observed cell exists.
//
// Everything that is listed here stays garbage for good, whatever happens to the row meanwhile. So two collectors, or one that
// was stopped for an hour between reading and erasing, do no harm. The one exception, the base that is a deletion, is erased on
// a condition.

// erasure removes versions of one cell.
type erasure struct {
	family, column string
	from, to       tso.Timestamp // half open
	versions       int           // that were seen there
}

func erase(family, column string, at tso.Timestamp) erasure {
	return erasure{family, column, at, at + 1, 1}
}

func (e erasure) apply(mut *bigtable.Mutation) {
	mut.DeleteTimestampRange(e.family, e.column, cellTime(e.from), cellTime(e.to))
}

// vanishing is the end of a cell: the deletion that is all it consists of, and its acknowledgments if nothing newer is there.
// It requires that no notify cell is left on the column: an observer that is behind would miss the deletion.
type vanishing struct {
	column   string
	erasures []erasure
}

func versionsOf(erasures []erasure) (n int) {
	for _, e := range erasures {
		n += e.versions
	}
	return n
}

// maxErasures is how many of them one row gets in a cycle: Bigtable takes 100,000 mutations of a row at once.
const maxErasures = 20_000

// rowGarbage is what can be removed of one row.
type rowGarbage struct {
	erasures  []erasure
	vanishing []vanishing
	postponed int // columns that were left alone because of an old lock, erasures beyond the limit
	corrupt   []string
}

// cellGarbage is the same for one cell.
type cellGarbage struct {
	erasures []erasure
	last     *erasure // the base, where it is a deletion or names data that does not exist
	left     bool     // something of the cell remains besides last
}

// collectible decides what of a row is garbage at mark. It is pure.
func collectible(row rowVersions, mark tso.Timestamp) rowGarbage {
	var g rowGarbage
	cells := map[string]cellGarbage{}
	acks := map[string][]string{} // of each column
	for _, col := range row.columns() {
		v, c := row[col], cellGarbage{left: true}
		switch {
		case v.corrupt != nil:
			g.corrupt = append(g.corrupt, col)
		case v.lockedAt(mark):
			g.postponed++
		default:
			c = v.collectible(col, mark)
		}
		cells[col] = c
		g.erasures = append(g.erasures, c.erasures...)
		if of, ok := acknowledged(col); ok {
			acks[of] = append(acks[of], col)
		}
	}
	for _, col := range row.columns() {
		if _, ack := acknowledged(col); !ack && cells[col].last != nil {
			if slices.ContainsFunc(acks[col], func(a string) bool { return cells[a].left }) {
				continue // somebody has run since the mark: that it was behind before can be seen only while the deletion is there (export.go)
			}
			g.vanishing = append(g.vanishing, vanish(col, cells, acks[col]))
		}
	}
	for of, columns := range acks {
		if _, there := row[of]; !there { // the cell vanished before
			if v := vanish(of, cells, columns); len(v.erasures) > 0 {
				g.vanishing = append(g.vanishing, v)
			}
		}
	}
	return g
}

// limit leaves to the next cycle what is too much for one request. Any part of the erasures is as good as all of them: none relies on
// another.
func (g *rowGarbage) limit() {
	if over := len(g.erasures) - maxErasures; over > 0 {
		g.erasures, g.postponed = g.erasures[:maxErasures], g.postponed+over
	}
}

// vanish gathers what goes with the last record of a cell: its acknowledgments, if the cell and they have nothing newer.
func vanish(col string, cells map[string]cellGarbage, acks []string) vanishing {
	v := vanishing{column: col}
	c := cells[col]
	if c.last != nil {
		v.erasures = append(v.erasures, *c.last)
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

// acknowledged tells of which column a reserved column is an acknowledgment.
func acknowledged(column string) (of string, ok bool) {
	rest, ok := strings.CutPrefix(column, ackPrefix)
	if !ok {
		return "", false
	}
	_, of, ok = strings.Cut(rest, "\x00")
	return of, ok
}

func (v *versions) lockedAt(mark tso.Timestamp) bool {
	return slices.ContainsFunc(v.locks, func(l lockRecord) bool { return l.startTS <= mark })
}

// collectible is the decision for one cell without old locks.
func (v *versions) collectible(column string, mark tso.Timestamp) cellGarbage {
	if _, ack := acknowledged(column); ack {
		return v.collectibleAck(column, mark)
	}
	var g cellGarbage
	base := v.base(mark)
	g.left = len(v.locks) > 0
	older := erasure{writeFamily, column, 0, base.commitTS, 0}
	for _, w := range v.writes {
		switch {
		case w.commitTS > mark:
			g.left = true
		case w.commitTS < base.commitTS:
			older.versions++
		case w.commitTS > base.commitTS: // a marker or lock record
			g.erasures = append(g.erasures, erase(writeFamily, column, w.commitTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
	v.dataGarbage(&g, column, base, mark)
	switch {
	case base.commitTS == 0:
	case base.kind == kindPut && v.hasData(base.startTS):
		g.left = true
	default:
		// The base says "nothing here", or is the trace of a commit that landed after collection. The range takes along whatever
		// lies under it: left behind, it would come back to life.
		g.last = &erasure{writeFamily, column, 0, base.commitTS + 1, 1}
	}
	return g
}

// base is the newest put or delete at or below the mark; zero if there is none.
func (v *versions) base(mark tso.Timestamp) writeRecord {
	for _, w := range v.writes {
		if w.commitTS <= mark && w.kind.changes() {
			return w
		}
	}
	return writeRecord{}
}

func (v *versions) hasData(startTS tso.Timestamp) bool {
	return slices.ContainsFunc(v.data, func(d dataVersion) bool { return d.startTS == startTS })
}

// dataGarbage finds data that no record from the base upwards names and no lock holds. What is older than all that is named
// goes in one range.
func (v *versions) dataGarbage(g *cellGarbage, column string, base writeRecord, mark tso.Timestamp) {
	named := map[tso.Timestamp]bool{}
	oldest := base.startTS // no transaction that began before the base's can commit above it
	for _, w := range v.writes {
		if w.kind == kindPut && w.commitTS >= base.commitTS {
			named[w.startTS] = true
			oldest = min(oldest, w.startTS)
		}
	}
	for _, l := range v.locks {
		named[l.startTS] = true
		oldest = min(oldest, l.startTS)
	}
	older := erasure{dataFamily, column, 0, oldest, 0}
	for _, d := range v.data {
		switch {
		case named[d.startTS] || d.startTS > mark:
			g.left = true
		case d.startTS < oldest:
			older.versions++
		default:
			g.erasures = append(g.erasures, erase(dataFamily, column, d.startTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
}

// collectibleAck keeps the newest lock record, which says what the observer has seen. A deletion says that the observer was
// forgotten (ForgetObserver); nothing at all says the same.
func (v *versions) collectibleAck(column string, mark tso.Timestamp) (g cellGarbage) {
	g.left = len(v.locks) > 0
	older := erasure{writeFamily, column, 0, 0, 0}
	seen := false
	for _, w := range v.writes {
		switch {
		case w.commitTS > mark:
			g.left = true
		case seen:
			older.versions++
		case w.kind == kindDelete:
			older.to, older.versions, seen = w.commitTS+1, 1, true
		case w.kind == kindLock:
			g.last = &erasure{writeFamily, column, 0, w.commitTS + 1, 1}
			older.to, seen = w.commitTS, true
		default: // a marker above the newest run
			g.erasures = append(g.erasures, erase(writeFamily, column, w.commitTS))
		}
	}
	if older.versions > 0 {
		g.erasures = append(g.erasures, older)
	}
	return g
}
