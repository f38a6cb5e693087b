// Package clumping measures what section 2.4 of the paper calls platooning, or bus clumping:
// scanners that end up at the same place of a table, because one that is in a busy region is slow
// and those behind it, which pass over what it has cleaned, are fast.
//
// It simulates workers in virtual time. Their scanners are those of package scanning, with the same
// pages, pauses, row locks, teleports and shares as in a worker; the table, the queue of a worker,
// and the time that requests and runs take are models. The course of a simulation depends on its
// [Config] alone.
package clumping

import (
	"context"
	"math/rand/v2"
	"time"
)

// Config is what is simulated. Times are virtual.
type Config struct {
	Workers     int // 1 to MaxScanners / Scanners
	Scanners    int // of each worker
	Concurrency int // runs at once on each worker
	Queue       int // cells that a worker has queued at most
	Page        int // rows that are read at once, at most
	Rows        int // of the table, dirty or not; 1,000 to 10,000,000
	Tablets     int // 1 to Rows

	Writes   float64       // rows a second that become dirty, anywhere in the table
	Run      time.Duration // of an observer
	Slow     float64       // share of the table with slow runs, as two regions
	SlowBy   float64
	Request  time.Duration // least time of a request; doubles with each other scanner in the tablet
	Tablet   time.Duration // to read through a tablet without dirty rows, likewise
	Duration time.Duration
	Every    time.Duration // between two looks at where the scanners are
	Seed     uint64
}

// MaxScanners is how many scanners all workers have together at most.
const MaxScanners = 64

// Default is a table under heavy load: about four fifths of the workers' time is needed for runs.
func Default() Config {
	return Config{
		Workers: 8, Scanners: 2, Concurrency: 8, Queue: 64, Page: 64, Rows: 1 << 16, Tablets: 64,
		Writes: 1600, Run: 20 * time.Millisecond, Slow: 1. / 16, SlowBy: 10,
		Request: 5 * time.Millisecond, Tablet: 50 * time.Millisecond,
		Duration: 5 * time.Minute, Every: time.Second, Seed: 1,
	}
}

// Variant is a way to search.
type Variant struct {
	Name      string
	Stay      bool // instead of teleporting, go on behind rows that another scanner has locked
	NoLocks   bool // between workers; scanners of one worker have them always
	Briefly   bool // rows are locked until they are queued, not until they are done
	Partition bool // the table is divided among the workers
}

// Variants are those to compare.
func Variants() []Variant {
	return []Variant{
		{Name: "no teleporting", Stay: true},
		{Name: "no teleporting, no row locks", Stay: true, NoLocks: true},
		{Name: "teleporting"},
		{Name: "teleporting, rows locked until queued", Briefly: true},
		{Name: "teleporting, no row locks", NoLocks: true},
		{Name: "static partition", Partition: true},
	}
}

// Sample is where the scanners are at one instant, or in the mean of some.
type Sample struct {
	Seconds float64
	// Mean and Least are the mean and the least distance of two scanners, as fractions of the table
	// (at most one half, as a pass goes around). Of scanners at random places the mean is one
	// quarter.
	Mean, Least float64
	Close       float64 // share of the pairs that are less than a hundredth of the table apart
	Twice       float64 // share of rows that another scanner had read while they were dirty
}

// Result is what came out of a variant.
type Result struct {
	Variant
	Sample  // the mean over the second half of the time, when the beginning is forgotten
	Samples []Sample

	Written   int // rows that became dirty
	Reads     int // rows that scanners read, each time
	Runs      int
	Wasted    float64 // share of runs that found the row cleaned by another worker
	Waited    float64 // seconds that a row was dirty, in the mean
	Teleports int64
}

// Run simulates a variant until it is over or ctx ends.
func Run(ctx context.Context, cfg Config, v Variant) (Result, error) {
	s := newWorld(ctx, cfg, v)
	defer s.end()
	return s.run()
}

// world is a simulation under way.
type world struct {
	cfg       Config
	variant   Variant
	clock     clock
	table     *table
	locks     *lockService
	workers   []*worker
	scanners  []*scanner
	processes []*process
	reading   []int // scanners that read in a tablet now
	writes    *rand.Rand

	ctx    context.Context // ends with the simulation
	cancel context.CancelFunc
}

func newWorld(ctx context.Context, cfg Config, v Variant) *world {
	w := &world{cfg: cfg, variant: v, clock: newClock(), table: &table{rows: make([]row, cfg.Rows)},
		reading: make([]int, cfg.Tablets), writes: seeded(cfg.Seed, 0)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.locks = &lockService{now: w.time, held: map[uint64]rowLock{}}
	for i := range cfg.Workers {
		w.addWorker(i)
	}
	w.clock.after(0, w.write)
	return w
}

// time is the virtual time as scanners see it.
func (w *world) time() time.Time { return time.Unix(0, 0).Add(w.clock.now) }

// write makes a row dirty, and then the next one.
func (w *world) write() {
	if w.cfg.Writes <= 0 {
		return
	}
	w.table.write(w.writes.IntN(w.cfg.Rows), w.clock.now)
	w.clock.after(time.Duration(w.writes.ExpFloat64()/w.cfg.Writes*float64(time.Second)), w.write)
}

func (w *world) start(f func(p *process)) {
	w.processes = append(w.processes, w.clock.start(f))
}

// end stops the processes.
func (w *world) end() {
	w.cancel()
	for _, p := range w.processes {
		p.stop()
	}
}

func (w *world) run() (Result, error) {
	r := Result{Variant: w.variant}
	var last, half counts // at the last sample, at half of the time
	n := 0.
	for at := w.cfg.Every; at <= w.cfg.Duration; at += w.cfg.Every {
		if err := w.ctx.Err(); err != nil {
			return r, err
		}
		w.clock.run(at)
		sample := w.look()
		sample.Twice = w.table.readTwiceSince(last)
		if at <= w.cfg.Duration/2 {
			half = w.table.counts
		} else {
			n, r.Mean, r.Least, r.Close = n+1, r.Mean+sample.Mean, r.Least+sample.Least, r.Close+sample.Close
		}
		last = w.table.counts
		r.Samples = append(r.Samples, sample)
	}
	t := w.table
	r.Mean, r.Least, r.Close, r.Twice = r.Mean/n, r.Least/n, r.Close/n, t.readTwiceSince(half)
	r.Written, r.Reads, r.Runs = t.written, t.reads, t.runs
	r.Wasted = float64(t.wasted) / float64(max(t.runs, 1))
	r.Waited = t.waited.Seconds() / float64(max(t.runs-t.wasted, 1))
	for _, x := range w.workers {
		r.Teleports += x.counts.Teleports.Load()
	}
	return r, nil
}

// look says where the scanners are.
func (w *world) look() Sample {
	s, at := Sample{Seconds: w.clock.now.Seconds()}, make([]int, len(w.scanners))
	for i, s := range w.scanners {
		at[i] = s.at
	}
	s.Mean, s.Least, s.Close = distances(at, w.cfg.Rows)
	return s
}

// slow tells whether runs take long for a row: in two regions, a third and two thirds into the
// table.
func (w *world) slow(i int) bool {
	at := float64(i) / float64(w.cfg.Rows)
	half := w.cfg.Slow / 2
	return at >= 1./3 && at < 1./3+half || at >= 2./3 && at < min(2./3+half, 1)
}

// lockService is the oracle's row locks, with virtual time.
type lockService struct {
	now  func() time.Time
	held map[uint64]rowLock
}

type rowLock struct {
	holder string
	until  time.Time
}

// LockRows implements coordination.RowLocks.
func (s *lockService) LockRows(_ context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	now := s.now()
	for i, r := range rows {
		if l, ok := s.held[r]; ok && l.holder != holder && now.Before(l.until) {
			return i, nil
		}
		s.held[r] = rowLock{holder, now.Add(ttl)}
	}
	return len(rows), nil
}

// UnlockRows implements coordination.RowLocks.
func (s *lockService) UnlockRows(_ context.Context, holder string, rows []uint64) error {
	for _, r := range rows {
		if s.held[r].holder == holder {
			delete(s.held, r)
		}
	}
	return nil
}
