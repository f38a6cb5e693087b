package clumping

import (
	"context"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/google/btree"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso/coordination"
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
	var service coordination.RowLocks
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

func (x *worker) unfinished(rows []layout.RowID) []bool {
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
func (s *scanner) ReadPage(ctx context.Context, _ string, r percolator.Range, most int,
	visit func(row string) bool) (p scanning.Page, err error) {
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
			p.Rows = append(p.Rows, model.Pending{Table: tableName, Row: key})
			s.versions[i] = s.table.rows[i].written
		}
		if from = next; len(p.Rows) == most {
			p.More, p.Next = true, p.Rows[most-1].Row+"\x00"
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
func (s *scanner) Work(ctx context.Context, rows []model.Pending) (foundNew, inQueue bool) {
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

// table is rows that become dirty and are cleaned by the runs of observers.
type table struct {
	rows []row
	counts
}

type counts struct {
	written int // rows that became dirty
	reads   int // rows that scanners read
	twice   int // of those, that another scanner has read since the row became dirty
	runs    int
	wasted  int           // runs for rows that another worker had cleaned
	waited  time.Duration // by rows, from when they became dirty until they were clean
}

// readTwiceSince is the share of the rows read since then that another scanner had read.
func (c counts) readTwiceSince(then counts) float64 {
	return float64(c.twice-then.twice) / float64(max(c.reads-then.reads, 1))
}

// row is dirty when written is beyond cleaned.
type row struct {
	written, cleaned int
	since            time.Duration
	readers          uint64 // scanners that have read it since it became dirty
}

func (r *row) dirty() bool { return r.written > r.cleaned }

// write makes a row dirty.
func (t *table) write(i int, now time.Duration) {
	r := &t.rows[i]
	if !r.dirty() {
		r.since, r.readers = now, 0
	}
	r.written++
	t.written++
}

// clean ends a run that began when the row had been written upTo times.
func (t *table) clean(i, upTo int, now time.Duration) {
	r := &t.rows[i]
	t.runs++
	if r.cleaned >= upTo {
		t.wasted++
		return
	}
	r.cleaned = upTo
	t.waited += now - r.since
	r.since, r.readers = now, 0
}

// read notes that a scanner has read a row.
func (t *table) read(i, scanner int) {
	r := &t.rows[i]
	t.reads++
	if r.readers&^(1<<scanner) != 0 {
		t.twice++
	}
	r.readers |= 1 << scanner
}

// dirtyBetween lists at most most dirty rows in [from, to), and where to go on.
func (t *table) dirtyBetween(from, to, most int) (found []int, next int) {
	for i := from; i < to; i++ {
		if !t.rows[i].dirty() {
			continue
		}
		if found = append(found, i); len(found) == most {
			return found, i + 1
		}
	}
	return found, to
}

// Keys are spread evenly over what eight bytes can say.

func (t *table) step() uint64 { return math.MaxUint64 / uint64(len(t.rows)) }

func (t *table) key(i int) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(i)*t.step()))
}

// index is the first row at or behind a key.
func (t *table) index(key string) int {
	var b [8]byte
	copy(b[:], key)
	v := binary.BigEndian.Uint64(b[:])
	i := v / t.step()
	if v%t.step() != 0 || len(key) > 8 {
		i++
	}
	return int(min(i, uint64(len(t.rows))))
}

// end is the row behind a range that ends with key.
func (t *table) end(key string) int {
	if key == "" {
		return len(t.rows)
	}
	return t.index(key)
}

// tablets are the ends of n tablets of the same size.
func (t *table) tablets(n int) []string {
	ends := make([]string, 0, n)
	for i := 1; i < n; i++ {
		ends = append(ends, t.key(i*len(t.rows)/n))
	}
	return ends
}

// distances returns the mean and the least distance between two places in a table that is gone
// through around and around, as fractions of the table, and the share of the pairs that are less
// than a hundredth of it apart.
func distances(places []int, rows int) (mean, least, close float64) {
	least = 1
	pairs := 0
	for i, a := range places {
		for _, b := range places[i+1:] {
			d := max(a-b, b-a)
			f := float64(min(d, rows-d)) / float64(rows)
			mean += f
			least = min(least, f)
			if f < 0.01 {
				close++
			}
			pairs++
		}
	}
	if pairs == 0 {
		return 0, 0, 0
	}
	return mean / float64(pairs), least, close / float64(pairs)
}

// seeded returns a source of chance for one part of a simulation.
func seeded(seed uint64, part int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, bits.ReverseBytes64(uint64(part))))
}

// clock runs processes in virtual time, one at a time and in a fixed order, so that a simulation
// has the same course whenever it is repeated.
type clock struct {
	now    time.Duration // since the beginning
	events *btree.BTreeG[event]
	count  int
}

func newClock() clock {
	return clock{events: btree.NewG(32, func(a, b event) bool { return a.at < b.at || a.at == b.at && a.order < b.order })}
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

// at has do called when now has passed by d.
func (c *clock) after(d time.Duration, do func()) {
	c.count++
	c.events.ReplaceOrInsert(event{c.now + d, c.count, do})
}

// run lets time pass until end.
func (c *clock) run(end time.Duration) {
	for e, ok := c.events.Min(); ok && e.at <= end; e, ok = c.events.Min() {
		c.events.DeleteMin()
		c.now = e.at
		e.do()
	}
	c.now = end
}

// process is a function that runs in virtual time.
type process struct {
	clock   *clock
	next    func() (time.Duration, bool)
	yield   func(time.Duration) bool
	stop    func()
	stopped bool
}

// parked is how long a process sleeps that another wakes.
const parked = time.Duration(-1)

// start begins a process, which runs until f returns.
func (c *clock) start(f func(p *process)) *process {
	p := &process{clock: c}
	p.next, p.stop = iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		f(p)
	})
	c.after(0, p.resume)
	return p
}

func (p *process) resume() {
	if d, ok := p.next(); ok && d != parked {
		p.clock.after(d, p.resume)
	}
}

// sleep returns false when the simulation is over.
func (p *process) sleep(d time.Duration) bool {
	if !p.stopped && !p.yield(d) {
		p.stopped = true
	}
	return !p.stopped
}

// wake lets a process go on that is parked.
func (p *process) wake() { p.clock.after(0, p.resume) }
