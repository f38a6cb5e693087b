package clumping

import (
	"context"
	"math/rand/v2"
	"time"
)

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
	w := &world{cfg: cfg, variant: v, table: newTable(cfg.Rows), reading: make([]int, cfg.Tablets), writes: seeded(cfg.Seed, 0)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.locks = newLockService(w.time)
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
	reads, twice, halves := 0, 0, 0
	var halfReads, halfTwice int
	for at := w.cfg.Every; at <= w.cfg.Duration; at += w.cfg.Every {
		if err := w.ctx.Err(); err != nil {
			return r, err
		}
		w.clock.run(at)
		sample := w.look()
		if n := w.table.reads - reads; n > 0 {
			sample.Twice = float64(w.table.twice-twice) / float64(n)
		}
		if at > w.cfg.Duration/2 {
			halfReads += w.table.reads - reads
			halfTwice += w.table.twice - twice
			r.Mean += sample.Mean
			r.Least += sample.Least
			r.Close += sample.Close
			halves++
		}
		reads, twice = w.table.reads, w.table.twice
		r.Samples = append(r.Samples, sample)
	}
	n := float64(max(halves, 1))
	r.Mean, r.Least, r.Close = r.Mean/n, r.Least/n, r.Close/n
	r.Twice = float64(halfTwice) / float64(max(halfReads, 1))
	w.total(&r)
	return r, nil
}

func (w *world) total(r *Result) {
	t := w.table
	r.Written, r.Reads, r.Runs = t.written, t.reads, t.runs
	r.Wasted = float64(t.wasted) / float64(max(t.runs, 1))
	r.Waited = t.waited.Seconds() / float64(max(t.runs-t.wasted, 1))
	r.Dirty = r.Samples[len(r.Samples)-1].Dirty
	for _, x := range w.workers {
		r.Teleports += x.counts.Teleports.Load()
	}
}

// look says where the scanners are.
func (w *world) look() Sample {
	s := Sample{Seconds: w.clock.now.Seconds()}
	s.Mean, s.Least, s.Close = distances(w.places(), w.cfg.Rows)
	for i := range w.table.rows {
		if w.table.rows[i].dirty() {
			s.Dirty++
		}
	}
	return s
}

func (w *world) places() []int {
	at := make([]int, len(w.scanners))
	for i, s := range w.scanners {
		at[i] = s.at
	}
	return at
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

func newLockService(now func() time.Time) *lockService {
	return &lockService{now: now, held: map[uint64]rowLock{}}
}

// LockRows implements tso.RowLocks.
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

// UnlockRows implements tso.RowLocks.
func (s *lockService) UnlockRows(_ context.Context, holder string, rows []uint64) error {
	for _, r := range rows {
		if s.held[r].holder == holder {
			delete(s.held, r)
		}
	}
	return nil
}
