package clumping

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// scanner is the model of what a scanner reads, and of how long that takes.
type scanner struct {
	*worker
	walk    scanning.Scanner
	random  *rand.Rand
	process *process
	number  int
	at      int // the row at which it is

	versions map[int]int // of rows when they were read
}

func (s *scanner) run(p *process) {
	s.process, s.versions = p, map[int]int{}
	s.at = s.random.IntN(s.cfg.Rows)
	pace := scanning.Pace{Random: s.random}
	for {
		foundNew, read, err := s.walk.Search(s.ctx)
		if err != nil || !p.sleep(pace.Next(foundNew && !s.saturated(), read)) {
			return
		}
	}
}

// ReadPage implements scanning.Source: it reads tablet by tablet. Who reads in the same tablet at the same time is slowed down.
func (s *scanner) ReadPage(ctx context.Context, _ string, r percolator.Range, most int, visit func(row string) bool) (p scanning.Page, err error) {
	from, to := s.table.index(r.Start), s.table.end(r.End)
	for from < to {
		s.at = from
		tablet := from * s.cfg.Tablets / s.cfg.Rows
		until := min(to, ((tablet+1)*s.cfg.Rows+s.cfg.Tablets-1)/s.cfg.Tablets)
		found, next := s.table.dirtyBetween(from, until, most-len(p.Rows))
		if !s.readIn(tablet, next-from, len(found)) {
			return p, context.Canceled
		}
		for _, i := range found {
			s.table.read(i, s.number)
			key := s.table.key(i)
			if !visit(key) {
				p.Met = true
				return p, nil
			}
			p.Rows = append(p.Rows, admin.Pending{Table: tableName, Row: key})
			s.versions[i] = s.table.rows[i].written
		}
		if from = next; len(p.Rows) == most {
			p.More = true
			return p, nil
		}
	}
	return p, nil
}

// readIn lets the time pass that it takes to read through rows of a tablet, found of them dirty.
func (s *scanner) readIn(tablet, rows, found int) bool {
	s.reading[tablet]++
	defer func() { s.reading[tablet]-- }()
	part := float64(rows) / float64(s.cfg.Rows) * float64(s.cfg.Tablets)
	lasts := float64(s.cfg.Request) + part*float64(s.cfg.Tablet) + float64(found)*float64(perRowRead)
	return s.process.sleep(time.Duration(lasts * float64(s.reading[tablet])))
}

// Work implements scanning.Source.
func (s *scanner) Work(ctx context.Context, rows []admin.Pending) (foundNew, inQueue bool) {
	known := 0
	defer clear(s.versions)
	for _, r := range rows {
		i := s.table.index(r.Row)
		s.at = i
		for !s.queued[i] && len(s.queued) >= s.cfg.Queue {
			s.room = append(s.room, s.process)
			if !s.process.sleep(parked) {
				return foundNew, false
			}
		}
		if s.queued[i] {
			known++
			continue
		}
		if s.settled[i] >= s.versions[i] {
			continue
		}
		s.accept(i)
		foundNew = true
	}
	return foundNew, known > len(rows)/2
}
