package simulated

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// page is what a table answers at one instant: the first of the rows that were asked for.
type page struct {
	rows   []layout.Row
	last   string // the last row that was looked at
	kept   bool   // the query kept it back
	looked int    // rows
	bytes  int64  // of the rows that were looked at
	next   string // the first key that is left; of a reverse read, everything below it is
	end    bool   // nothing is left
	err    error

	tablet *tablet
	cost   time.Duration // until the disk has passed over it
}

const (
	pageRows  = 256 // looked at, at most
	pageBytes = 1 << 20
)

// full reports whether a page ends with the row that was looked at last.
func (p *page) full(limit, most int) bool {
	return p.looked >= most || p.bytes >= pageBytes || limit > 0 && len(p.rows) >= limit
}

// page reads rows from the first key that is asked for, of one tablet. What pages hold differs from
// read to read.
func (t *table) page(from store.Rows, q *store.Query, limit int, h hash) (p page, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.cluster.full(nil, true); err != nil {
		return p, err
	}
	t.recut()
	switch {
	case from.Keys != nil:
		err = t.pageOfKeys(&p, from.Keys, q, limit, h)
	case from.Reverse:
		err = t.pageDownRanges(&p, from.Ranges, q, limit, h)
	default:
		err = t.pageOfRanges(&p, from.Ranges, q, limit, h)
	}
	if err == nil {
		p.cost = p.tablet.pass(p.bytes, t.cluster.config.Disks.Speed)
	}
	return p, err
}

func (t *table) pageOfKeys(p *page, keys []string, q *store.Query, limit int, h hash) error {
	end, err := t.enter(p, keys[0])
	if err != nil {
		return err
	}
	most := 1 + h.below(pageRows)
	for _, key := range keys {
		if end != "" && key >= end || p.full(limit, most) {
			p.next = key
			return nil
		}
		if p.look(t.at(key), q, h); p.err != nil {
			return p.err
		}
	}
	p.end = true
	return nil
}

func (t *table) pageOfRanges(p *page, ranges catalog.Ranges, q *store.Query, limit int, h hash) error {
	end, err := t.enter(p, ranges[0].Start)
	if err != nil {
		return err
	}
	most := 1 + h.below(pageRows)
	for _, r := range ranges {
		if end != "" && r.Start >= end {
			p.next = r.Start
			return nil
		}
		t.sought.key = r.Start
		stopped := false
		t.rows.AscendGreaterOrEqual(&t.sought, func(at *row) bool {
			switch {
			case r.End != "" && at.key >= r.End:
				return false
			case end != "" && at.key >= end || p.full(limit, most):
				p.next, stopped = at.key, true
				return false
			}
			p.look(at, q, h)
			return p.err == nil
		})
		if stopped || p.err != nil {
			return p.err
		}
	}
	p.end = true
	return nil
}

// pageDownRanges is pageOfRanges from the last key to the first.
func (t *table) pageDownRanges(p *page, ranges catalog.Ranges, q *store.Query, limit int, h hash) error {
	p.tablet = t.tabletBelow(ranges[len(ranges)-1].End)
	if err := t.away(p.tablet); err != nil {
		return err
	}
	most := 1 + h.below(pageRows)
	for _, r := range slices.Backward(ranges) {
		if r.End != "" && r.End <= p.tablet.start {
			p.next = r.End
			return nil
		}
		stopped := false
		each := func(at *row) bool {
			switch {
			case r.End != "" && at.key >= r.End:
				return true
			case at.key < r.Start:
				return false
			case at.key < p.tablet.start || p.full(limit, most):
				p.next, stopped = at.key+"\x00", true
				return false
			}
			p.look(at, q, h)
			return p.err == nil
		}
		if t.sought.key = r.End; r.End == "" {
			t.rows.Descend(each)
		} else {
			t.rows.DescendLessOrEqual(&t.sought, each)
		}
		if stopped || p.err != nil {
			return p.err
		}
	}
	p.end = true
	return nil
}

// enter finds the tablet of a page, and where that ends.
func (t *table) enter(p *page, key string) (end string, err error) {
	p.tablet, end = t.tablet(key)
	return end, t.away(p.tablet)
}

// look takes a row, which is nil if it is missing.
func (p *page) look(r *row, q *store.Query, h hash) {
	if p.looked++; r == nil {
		return
	}
	answer, err := r.answer(q, h.with(uint64(p.looked)))
	if p.err = err; err != nil {
		return
	}
	p.bytes += r.size
	p.last, p.kept = r.key, answer.Missing()
	if !p.kept {
		p.rows = append(p.rows, answer)
	}
}
