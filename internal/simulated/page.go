package simulated

import (
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/store"
)

// page is what a table answers at one instant: the first of the rows that were asked for.
type page struct {
	rows   []layout.Row
	last   string // the last row that was looked at
	kept   bool   // the query kept it back
	looked int    // rows
	bytes  int64  // of the rows that were looked at
	end    bool   // nothing is left
}

const (
	pageRows  = 256 // looked at, at most
	pageBytes = 1 << 20
)

// full reports whether a page ends with the row that was looked at last.
func (p *page) full(limit, most int) bool {
	return p.looked >= most || p.bytes >= pageBytes || limit > 0 && len(p.rows) >= limit
}

// page reads rows from the first key that is asked for. What pages hold differs from read to read.
func (t *table) page(from store.Rows, q *store.Query, limit int, h hash) (p page, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := 1 + h.below(pageRows)
	if from.Keys != nil {
		for i, key := range from.Keys {
			if r := t.at(key); r != nil {
				if err := p.look(r, q, h); err != nil {
					return p, err
				}
			}
			if p.last = key; p.full(limit, most) {
				p.end = i == len(from.Keys)-1
				return p, nil
			}
		}
		p.end = true
		return p, nil
	}
	for _, r := range from.Ranges {
		ended := true
		t.rows.AscendGreaterOrEqual(&row{key: r.Start}, func(at *row) bool {
			if r.End != "" && at.key >= r.End {
				return false
			}
			err = p.look(at, q, h)
			ended = err == nil && !p.full(limit, most)
			return ended
		})
		if err != nil || !ended {
			return p, err
		}
	}
	p.end = true
	return p, nil
}

func (p *page) look(r *row, q *store.Query, h hash) error {
	answer, err := r.answer(q, h.with(uint64(p.looked)))
	if err != nil {
		return err
	}
	p.looked++
	p.bytes += r.size
	p.last, p.kept = r.key, answer.Missing()
	if !p.kept {
		p.rows = append(p.rows, answer)
	}
	return nil
}
