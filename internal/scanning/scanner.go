package scanning

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

const (
	maxTeleports = 4 // in one pass through a table
	queuedPages  = 2 // pages in a row that are in the queue already, after which a pass ends
	maxPage      = reads.MaxPendingRows
	firstPageOf  = 16 // MaxPage / first page: another scanner may be there; pages grow fourfold
	wholeEvery   = 16 // every 16th pass goes through the whole table, whatever the worker's part
	afterLastRow = "\x00"
)

// Turn is how long a scanner reads one table before it turns to the others, so that a large table
// does not keep a small one waiting.
const Turn = 10 * time.Second

// Page holds consecutive rows with notifications or locks, locked against other scanners.
type Page struct {
	Rows []model.Pending
	More bool   // there may be more from Next on
	Next string // behind the last row, or where a request without any had come to
	Met  bool   // the row behind the last one is locked by another scanner
}

// Source reads for a scanner and takes what it finds.
type Source interface {
	// ReadPage reads at most most rows from the start of r, for about a Turn at most. visit reports
	// for each whether to go on with it.
	ReadPage(ctx context.Context, table string, r percolator.Range, most int, visit func(row string) bool) (Page, error)
	// Work handles rows, and waits while there is no room for them. inQueue: most of them already
	// wait for their turn.
	Work(ctx context.Context, rows []model.Pending) (foundNew, inQueue bool)
}

// Counts are what the scanners of a worker have done.
type Counts struct {
	Searches  atomic.Int64 // rounds through all tables
	Rows      atomic.Int64 // rows that were read and not locked by another scanner of the worker
	Teleports atomic.Int64
}

// Scanner goes through tables page by page, from a random key to the end and around. It hands on
// what it found before it reads the next page, so it is no faster than the runs; two workers that
// start at different keys share the work. Set the fields before the first search. One goroutine
// uses a scanner. All scanners of a worker share Places, Rows, Remote, Counts and Shares.
type Scanner struct {
	Source Source
	Tables []string
	Places *Places
	Rows   *RowLocks
	Remote *RemoteLocks
	Shares func(table string) percolator.Range // the worker's part of a table; nil: everything
	Counts *Counts
	Now    func() time.Time
	Random *rand.Rand

	// MaxPage is how many rows are read at once. 0: 1,024.
	MaxPage int
	// Stay is for comparison: a scanner that meets another one goes on after the locked rows
	// instead of going elsewhere.
	Stay bool

	read   time.Duration
	passes int
}

// Search goes through all tables, in random order, and meanwhile again through those that take no
// more than a turn. read is the time spent on reading. An error is the Source's first; it keeps no
// other table waiting.
func (s *Scanner) Search(ctx context.Context) (foundNew bool, read time.Duration, failed error) {
	s.Counts.Searches.Add(1)
	s.read = 0
	large := map[string]*pass{}
	for midway, first := 0, true; first || midway > 0; first = false {
		for _, i := range s.Random.Perm(len(s.Tables)) {
			table := s.Tables[i]
			p := large[table]
			switch {
			case p == nil:
				p = &pass{part: s.share(table)}
				p.rest = s.around(ctx, table, p.part)
			case len(p.rest) == 0:
				continue
			default:
				midway--
			}
			found, err := s.turn(ctx, table, p)
			foundNew = foundNew || found
			switch {
			case ctx.Err() != nil:
				return foundNew, s.read, err
			case err != nil:
				failed = cmp.Or(failed, err)
				delete(large, table)
			case len(p.rest) > 0:
				large[table] = p
				midway++
			}
		}
	}
	return foundNew, s.read, failed
}

// share returns the part of a table for the next pass: now and then all of it, so that any live
// worker finds everything, whatever the workers believe about each other.
func (s *Scanner) share(table string) percolator.Range {
	s.passes++
	if s.Shares == nil || s.passes%wholeEvery == 0 {
		return percolator.All()
	}
	return s.Shares(table)
}

// pass is one through a part of a table, from a random key and around.
type pass struct {
	part      percolator.Range
	rest      []percolator.Range // what it has yet to go through
	teleports int
}

// turn goes on with a pass for about a Turn.
func (s *Scanner) turn(ctx context.Context, table string, p *pass) (foundNew bool, err error) {
	for until := s.read + Turn; len(p.rest) > 0 && s.read < until; {
		found, met, done, err := s.sweep(ctx, table, &p.rest[0], until)
		foundNew = foundNew || found
		switch {
		case err != nil:
			return foundNew, err
		case met:
			s.Counts.Teleports.Add(1)
			if p.teleports++; p.teleports == maxTeleports {
				p.rest = nil
				return foundNew, nil
			}
			p.rest = s.around(ctx, table, p.part)
		case done:
			p.rest = p.rest[1:]
		}
	}
	return foundNew, nil
}

// around is a part from a random key on, and then what lies before it.
func (s *Scanner) around(ctx context.Context, table string, part percolator.Range) []percolator.Range {
	start := s.Places.Pick(ctx, table, part)
	ranges := []percolator.Range{percolator.Between(start, part.End)}
	if start > part.Start {
		ranges = append(ranges, percolator.Between(part.Start, start))
	}
	return ranges
}

// sweep goes through a range of a table, page by page, until so much time was spent on reading. It
// moves the start of the range. met: another scanner is there; done: the range is.
func (s *Scanner) sweep(ctx context.Context, table string, r *percolator.Range, until time.Duration) (foundNew, met, done bool, err error) {
	queued := 0
	largest := cmp.Or(s.MaxPage, maxPage)
	for most := max(largest/firstPageOf, 1); s.read < until; most = min(4*most, largest) {
		p, err := s.readLocked(ctx, table, *r, most)
		found, inQueue := s.Source.Work(ctx, p.Rows)
		s.release(ctx, p.Rows)
		foundNew = foundNew || found
		if err != nil || p.Met || !p.More {
			return foundNew, p.Met, true, err
		}
		if queued++; found || !inQueue {
			queued = 0
		}
		if queued == queuedPages { // the queue is well ahead of us here, and will be for a while
			return foundNew, false, true, nil
		}
		r.Start = p.Next
	}
	return foundNew, false, false, nil
}

// readLocked reads a page and locks its rows.
func (s *Scanner) readLocked(ctx context.Context, table string, r percolator.Range, most int) (p Page, err error) {
	started := s.Now()
	defer func() { s.read += s.Now().Sub(started) }()
	theirs := map[string]bool{} // with Stay: the rows of other scanners of the worker
	p, err = s.Source.ReadPage(ctx, table, r, most, func(row string) bool {
		if !s.Rows.TryLock(table, row) {
			theirs[row] = s.Stay
			return s.Stay
		}
		s.Places.Met(table, row)
		s.Counts.Rows.Add(1)
		return true
	})
	if s.Stay {
		p.Rows = s.lockOthers(ctx, p.Rows, theirs)
		return p, err
	}
	if n := s.Remote.Lock(ctx, p.Rows); n < len(p.Rows) {
		s.Rows.unlockAll(p.Rows[n:])
		p.Rows, p.Met = p.Rows[:n], true
	}
	return p, err
}

// lockOthers locks what it can of rows other than theirs.
func (s *Scanner) lockOthers(ctx context.Context, rows []model.Pending, theirs map[string]bool) (locked []model.Pending) {
	rows = slices.DeleteFunc(rows, func(r model.Pending) bool { return theirs[r.Row] })
	for len(rows) > 0 {
		n := s.Remote.Lock(ctx, rows)
		locked = append(locked, rows[:n]...)
		if n < len(rows) {
			s.Rows.unlockAll(rows[n : n+1])
			n++
		}
		rows = rows[n:]
	}
	return locked
}

func (s *Scanner) release(ctx context.Context, rows []model.Pending) {
	s.Remote.Done(ctx, rows)
	s.Rows.unlockAll(rows)
}
