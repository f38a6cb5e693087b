package clumping

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

const (
	tableName  = "t"
	keepEvery  = time.Second
	perRowRead = 20 * time.Microsecond
)

// worker is the model of a worker's queue and runs. A row is one cell with one observer.
type worker struct {
	*world
	queued  map[int]bool // waiting or running
	settled map[int]int  // up to which version the worker itself has cleaned a row
	waiting []int
	running int
	room    []*process // that wait for it

	counts scanning.Counts
	remote *scanning.RemoteLocks
}

func (w *world) addWorker(i int) {
	x := &worker{world: w, queued: map[int]bool{}, settled: map[int]int{}}
	var service tso.RowLocks
	if !w.variant.NoLocks {
		service = w.locks
	}
	x.remote = scanning.NewRemoteLocks(service, x.unfinished, w.time)
	tablets := w.table.tablets(w.cfg.Tablets)
	places := scanning.NewPlaces(func(context.Context, string) ([]string, error) { return tablets, nil }, w.time, seeded(w.cfg.Seed, 1+i))
	locks := scanning.NewRowLocks()
	share := scanning.Share(tablets, i, w.cfg.Workers)
	for j := range w.cfg.Scanners {
		s := &scanner{worker: x, number: i*w.cfg.Scanners + j}
		s.random = seeded(w.cfg.Seed, 1000+s.number)
		s.walk = scanning.Scanner{
			Source: s, Tables: []string{tableName}, Places: places, Rows: locks, Remote: x.remote, Counts: &x.counts,
			Now: w.time, Random: s.random, Stay: w.variant.Stay, MaxPage: w.cfg.Page,
		}
		if w.variant.Partition {
			s.walk.Shares = func(string) percolator.Range { return share }
		}
		w.scanners = append(w.scanners, s)
		w.start(s.run)
	}
	w.start(func(p *process) {
		for p.sleep(keepEvery) {
			x.remote.Keep(w.ctx)
		}
	})
	w.workers = append(w.workers, x)
}

func (x *worker) unfinished(rows []scanning.Row) []bool {
	out := make([]bool, len(rows))
	for i, r := range rows {
		out[i] = !x.variant.Briefly && x.queued[x.table.index(r.Key)]
	}
	return out
}

func (x *worker) saturated() bool { return len(x.queued) >= x.cfg.Queue/2 }

// accept queues a row.
func (x *worker) accept(i int) {
	x.queued[i] = true
	x.waiting = append(x.waiting, i)
	x.fill()
}

// fill begins runs as long as there is a place.
func (x *worker) fill() {
	for x.running < x.cfg.Concurrency && len(x.waiting) > 0 {
		i := x.waiting[0]
		x.waiting = x.waiting[1:]
		x.running++
		upTo, lasts := x.table.rows[i].written, x.cfg.Run
		if !x.table.rows[i].dirty() {
			lasts /= 10 // it reads the acknowledgment, and that is all
		} else if x.slow(i) {
			lasts = time.Duration(float64(lasts) * x.cfg.SlowBy)
		}
		x.clock.after(lasts, func() { x.finish(i, upTo) })
	}
}

func (x *worker) finish(i, upTo int) {
	x.table.clean(i, upTo, x.clock.now)
	x.running--
	delete(x.queued, i)
	x.settled[i] = upTo
	x.fill()
	if len(x.queued) == x.cfg.Queue/2 {
		for _, p := range x.room {
			p.wake()
		}
		x.room = nil
	}
}

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

// ReadPage implements scanning.Source: it reads tablet by tablet. Who reads in the same tablet at
// the same time is slowed down.
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
