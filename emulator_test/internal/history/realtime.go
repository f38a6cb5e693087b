package history

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gopercolator/percolator/tso"
)

// moment is a begin or an end in the order of real time.
type moment struct {
	at  int64
	txn *Txn
	end bool
}

// moments lists begins and ends as they happened. Transactions that never ended, and those whose
// begin was not seen, have one of them or none.
func (c *Checker) moments() []moment {
	var all []moment
	for _, t := range c.txns {
		if t.began != 0 {
			all = append(all, moment{t.began, t, false})
		}
		if t.ended != 0 {
			all = append(all, moment{t.ended, t, true})
		}
	}
	slices.SortFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// known is the greatest timestamp that had been acknowledged at a moment.
type known struct {
	at     int64
	ts     tso.Timestamp
	holder *Txn
}

// acknowledgments lists how the greatest acknowledged timestamp grew since the last window.
func (c *Checker) acknowledgments() []known {
	var ends []*Txn
	for _, t := range c.h.txns {
		if t.ended > c.moment {
			ends = append(ends, t)
		}
	}
	slices.SortFunc(ends, func(a, b *Txn) int { return cmp.Compare(a.ended, b.ended) })
	all := []known{c.newest}
	for _, t := range ends {
		ts := t.acknowledged()
		if !t.placed {
			ts = max(ts, t.start)
		}
		if ts > all[len(all)-1].ts {
			all = append(all, known{t.ended, ts, t})
		}
	}
	return all
}

// checkRealTime: who begins after another was acknowledged gets later timestamps (I1).
func (c *Checker) checkRealTime() {
	all := c.acknowledgments()
	before := func(t *Txn) known {
		if t.floor != nil {
			return *t.floor
		}
		if i := sort.Search(len(all), func(i int) bool { return all[i].at >= t.began }) - 1; i >= 0 {
			return all[i]
		}
		return known{}
	}
	for _, t := range c.h.txns {
		switch {
		case t.judged || t.began == 0:
		case !t.included:
			floor := before(t)
			t.floor = &floor
		case (!t.placed || t.bounded) && t.start != 0 && t.start <= before(t).ts:
			c.report.add(anomalyRealTime, "%s began after %s was acknowledged, whose timestamp is %d", t, before(t).holder, before(t).ts)
		case t.placed && t.ended != 0 && t.acknowledged() != 0 && t.acknowledged() <= before(t).ts:
			c.report.add(anomalyRealTime, "%s began after a timestamp of %d was known", t, before(t).ts)
		}
	}
	c.newest = all[len(all)-1]
}
