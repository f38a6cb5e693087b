package percolator

import (
	"slices"
	"sync"
)

// Percolator's prefetcher reads ahead what transactions of the same shape went on to read (section 2.5 of the paper: ten times
// fewer reads). The predictor learns, for each table and column that a snapshot reads first in a row, which other columns of
// that row the same snapshot reads later; those that follow at least half of the time are fetched in the same request.
// A wrong guess costs bytes, never correctness: it is the same row at the same snapshot.
const (
	predictColumns = 256 // columns remembered; the rest are not predicted
	predictFollow  = 16  // followers remembered for each
	predictMin     = 8   // observations before anything is predicted
	predictBytes   = 256 // longest column name that is predicted
	predictDecay   = 1 << 12
)

type predictor struct {
	mu    sync.Mutex
	stats map[columnName]*columnStats
}

type columnName struct{ table, column string }

type columnStats struct {
	seen    int
	follows map[string]int
}

func newPredictor() *predictor { return &predictor{stats: map[columnName]*columnStats{}} }

// expect records that ask is being read and returns what is worth fetching along with it.
func (p *predictor) expect(cache *readCache, ask []Cell) []Cell {
	var extra []Cell
	asked := make(map[Cell]bool, len(ask))
	for _, c := range ask {
		asked[c] = true
		first, isFirst := cache.firstOfRow(c)
		p.mu.Lock()
		if isFirst {
			extra = append(extra, p.first(c)...)
		} else if first != c.Column {
			p.followed(columnName{c.Table, first}, c.Column)
		}
		p.mu.Unlock()
	}
	return slices.DeleteFunc(extra, func(c Cell) bool {
		return cache.has(c) || asked[c]
	})
}

// first counts a row that begins with this column and predicts the rest of it.
func (p *predictor) first(c Cell) []Cell {
	name := columnName{c.Table, c.Column}
	s := p.stats[name]
	if s == nil {
		if len(p.stats) >= predictColumns {
			return nil
		}
		s = &columnStats{follows: map[string]int{}}
		p.stats[name] = s
	}
	var extra []Cell
	if s.seen >= predictMin {
		for col, n := range s.follows {
			if 2*n >= s.seen {
				extra = append(extra, Cell{c.Table, c.Row, col})
			}
		}
	}
	if s.seen++; s.seen >= predictDecay {
		s.seen /= 2
		for col := range s.follows {
			s.follows[col] /= 2
		}
	}
	return extra
}

// hit counts a prefetched column that was read after all.
func (p *predictor) hit(cache *readCache, c Cell) {
	if first, isFirst := cache.firstOfRow(c); !isFirst && first != c.Column {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.followed(columnName{c.Table, first}, c.Column)
	}
}

func (p *predictor) followed(first columnName, column string) {
	s := p.stats[first]
	if s == nil || len(column) > predictBytes || (len(s.follows) >= predictFollow && s.follows[column] == 0) {
		return
	}
	s.follows[column]++
}

// firstOfRow returns the column of c's row that this snapshot read first, and whether that is c, now.
func (rc *readCache) firstOfRow(c Cell) (string, bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	row := Cell{Table: c.Table, Row: c.Row}
	if first, ok := rc.rows[row]; ok {
		return first, false
	}
	if rc.rows == nil {
		rc.rows = map[Cell]string{}
	}
	if len(rc.rows) < 1<<16 {
		rc.rows[row] = c.Column
	}
	return c.Column, true
}
