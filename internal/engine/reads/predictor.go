package reads

import (
	"slices"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/percolator/model"
)

// Percolator's prefetcher reads ahead what transactions of the same shape went on to read (section
// 2.5 of the paper: ten times fewer reads). The predictor learns, for the columns of a row that a
// snapshot asks for first, which other columns of the row the same snapshot asks for later. It
// fetches those that follow at least half of the time in the same request. A wrong guess costs
// bytes, never correctness: it is the same row at the same snapshot.
const (
	predictShapes = 256 // sets of columns remembered; the rest are not predicted
	predictFollow = 16  // followers remembered for each
	predictMin    = 8   // observations before anything is predicted
	predictBytes  = 256 // longest column name that is predicted
	predictLong   = 1 << 10
	predictDecay  = 1 << 12
)

type predictor struct {
	mu    sync.Mutex
	stats map[readShape]*shapeStats
}

// readShape is what a snapshot asked of a row first: the table and the joined columns.
type readShape struct{ table, columns string }

type shapeStats struct {
	seen    int
	follows map[string]int
}

// expect records that one call reads ask, and returns the cells worth fetching along with it.
func (p *predictor) expect(cache *readCache, ask []model.Cell) (extra []model.Cell) {
	if len(ask) == 1 {
		return p.expectRow(cache, ask, nil)
	}
	byRow := map[model.Cell][]model.Cell{}
	for _, c := range ask {
		row := model.Cell{Table: c.Table, Row: c.Row}
		byRow[row] = append(byRow[row], c)
	}
	for _, cells := range byRow {
		extra = p.expectRow(cache, cells, extra)
	}
	return extra
}

// expectRow is expect for cells of one row.
func (p *predictor) expectRow(cache *readCache, cells, extra []model.Cell) []model.Cell {
	shape := shapeOf(cells)
	first, isFirst := cache.firstOfRow(cells[0], shape)
	p.mu.Lock()
	defer p.mu.Unlock()
	if isFirst {
		return p.first(cache, shape, cells, extra)
	}
	for _, c := range cells {
		p.followed(first, c.Column)
	}
	return extra
}

func shapeOf(cells []model.Cell) readShape {
	if len(cells) == 1 {
		return readShape{cells[0].Table, cells[0].Column}
	}
	columns := make([]string, 0, len(cells))
	size := 0
	for _, c := range cells {
		columns = append(columns, c.Column)
		size += len(c.Column)
	}
	if size > predictLong {
		return readShape{table: cells[0].Table}
	}
	slices.Sort(columns)
	return readShape{cells[0].Table, strings.Join(slices.Compact(columns), "\x00")}
}

// first counts a row whose first request has this shape, and predicts the rest of the row.
func (p *predictor) first(cache *readCache, shape readShape, cells, extra []model.Cell) []model.Cell {
	s := p.stats[shape]
	if s == nil {
		if len(p.stats) >= predictShapes || shape.columns == "" {
			return extra
		}
		s = &shapeStats{follows: map[string]int{}}
		p.stats[shape] = s
	}
	if s.seen >= predictMin {
		for col, n := range s.follows {
			c := model.Cell{Table: cells[0].Table, Row: cells[0].Row, Column: col}
			if 2*n >= s.seen && !slices.Contains(cells, c) && !cache.has(c) {
				extra = append(extra, c)
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

// hit counts a prefetched column that the snapshot read after all.
func (p *predictor) hit(cache *readCache, c model.Cell) {
	if first, isFirst := cache.firstOfRow(c, readShape{c.Table, c.Column}); !isFirst {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.followed(first, c.Column)
	}
}

func (p *predictor) followed(first readShape, column string) {
	s := p.stats[first]
	if s == nil || len(column) > predictBytes || (len(s.follows) >= predictFollow && s.follows[column] == 0) {
		return
	}
	s.follows[column]++
}

// firstOfRow returns the shape of this snapshot's first request for c's row, and whether that is
// the present one.
func (rc *readCache) firstOfRow(c model.Cell, shape readShape) (first readShape, isFirst bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	row := model.Cell{Table: c.Table, Row: c.Row}
	if first, ok := rc.rows[row]; ok {
		return first, false
	}
	if rc.rows == nil {
		rc.rows = map[model.Cell]readShape{}
	}
	if len(rc.rows) < 1<<16 {
		rc.rows[row] = shape
	}
	return shape, true
}
