package tso

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// Status is what a [Server] knows about itself and its oracle.
type Status struct {
	// Server identifies the server; a new one every time it starts. Address is where clients find
	// it, "" without a listener.
	Server, Address string

	// Running: Run or Serve has started and not ended.
	Running bool

	// Leading: this server can hand out timestamps. LeaseLeft is for how long it can, should the
	// store not answer any more.
	Leading   bool
	LeaseLeft time.Duration

	// Leader is the address of the leader as registered in the store, "" when none is known, for
	// instance while an old lease runs out.
	Leader string

	// Record is the record that this server read or wrote last, with the epoch and the high-water
	// mark.
	Record State

	// Served is how many timestamps this server has handed out.
	Served int64

	// StoreAnswered is how long ago the store answered last, negative if it never has. StoreError
	// is what the last request to it failed with, nil if it succeeded.
	StoreAnswered time.Duration
	StoreError    error

	idle        time.Duration // since a request to the store began or ended
	maxIdle     time.Duration
	maxSilence  time.Duration
	windowLeft  time.Duration // 0 unless it holds the lease
	otherLeader bool
	dry         bool // it holds the lease, and its window is used up
}

// Status returns what the server knows, without asking the store. It is safe for concurrent use, at
// any time.
func (s *Server) Status() Status {
	st := Status{
		Server: s.elector.id, Address: s.advertised(), Leader: s.elector.leaderAddress(),
		maxIdle: s.elector.maxIdle(), maxSilence: max(s.cfg.Lease, minSilence),
	}
	select {
	case <-s.ended:
	default:
		st.Running = s.started.Load()
	}
	st.Record, st.idle, st.StoreAnswered, st.StoreError = s.watch.read()
	a := s.alloc.report()
	st.Served, st.Leading, st.windowLeft = a.served, a.serving, a.windowLeft
	st.dry = a.holds && !a.serving
	if a.serving {
		st.LeaseLeft = a.leaseLeft
	}
	st.otherLeader = st.Record.held() && st.Record.Holder != st.Server && st.Leader != ""
	return st
}

// advertised returns the address under which clients find this server.
func (s *Server) advertised() string {
	if p := s.address.Load(); p != nil {
		return *p
	}
	return s.cfg.Advertise
}

// Live returns nil while the election loop makes progress, and otherwise what is wrong: then
// replace the process.
func (st Status) Live() error {
	switch {
	case !st.Running:
		return errors.New("the server does not run")
	case st.idle > st.maxIdle:
		return fmt.Errorf("the election has made no progress for %v", st.idle.Round(time.Millisecond))
	}
	return nil
}

// Ready returns nil when the server leads, or follows a known leader that it would replace: its
// store has answered within the lease. Otherwise it returns what is missing.
func (st Status) Ready() error {
	if err := st.Live(); err != nil {
		return err
	}
	switch {
	case st.Leading:
		return nil
	case st.dry:
		return fmt.Errorf("this server leads, and has no timestamps left while the store cannot be written: %w", st.StoreError)
	case st.StoreAnswered < 0:
		return errors.New("the store has not answered yet")
	case st.StoreAnswered > st.maxSilence:
		return fmt.Errorf("the store has not answered for %v", st.StoreAnswered.Round(time.Millisecond))
	case !st.otherLeader:
		return errors.New("this server does not lead and knows no leader")
	}
	return nil
}

// minSilence is how long a store may be silent before a follower is no longer ready, however short
// its lease: one read may take that long.
const minSilence = 2 * time.Second

// maxIdle is how long the election loop may go without a request to the store beginning or ending:
// one pause and one request, twice.
func (t timing) maxIdle() time.Duration {
	return 2 * (max(t.renew, t.poll, t.retry) + max(t.attempt, t.read, attemptTimeout))
}

// storeWatch is the elector's store and notes what it answered last, and when. The election loop
// sends requests all the time, as a follower and as a leader, so its progress shows here too.
type storeWatch struct {
	Store
	clock clock

	mu       sync.Mutex
	seen     State         // the record that was read or written last
	active   time.Duration // when a request began or ended last, by the monotonic clock
	answered time.Duration // when the store answered last; negative: never
	failure  error         // of the last request; nil if it was answered
}

func (w *storeWatch) Load(ctx context.Context) (State, error) {
	w.begin()
	st, err := w.Store.Load(ctx)
	w.end(ctx, err, st)
	return st, err
}

func (w *storeWatch) CompareAndSwap(ctx context.Context, old, next State) error {
	w.begin()
	err := w.Store.CompareAndSwap(ctx, old, next)
	w.end(ctx, err, next)
	return err
}

func (w *storeWatch) begin() {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = now
}

// end notes the outcome of a request; st is what the store holds if err is nil.
func (w *storeWatch) end(ctx context.Context, err error, st State) {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = now
	switch {
	case err == nil:
		w.seen, w.answered, w.failure = st, now, nil
	case errors.Is(err, ErrFenced): // an answer too, and the record is read next
		w.answered, w.failure = now, nil
	case errors.Is(ctx.Err(), context.Canceled): // the server ends
	default:
		w.failure = err
	}
}

// read returns what is known of the store, and how long ago it was active and answered.
func (w *storeWatch) read() (seen State, idle, silent time.Duration, failure error) {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	silent = -1
	if w.answered >= 0 {
		silent = now - w.answered
	}
	return w.seen, now - w.active, silent, w.failure
}

// instruments are those of a server. They are read when they are collected, so that requests do not
// pay for them.
type instruments struct {
	meter   metric.Meter
	all     []metric.Observable
	observe []func(metric.Observer, Status)
	err     error
}

func (s *Server) registerMetrics() (unregister func(), err error) {
	m := &instruments{meter: s.cfg.MeterProvider.Meter("github.com/gopercolator/percolator/tso")}
	m.counter("percolator.tso.timestamps", "{timestamp}", "Timestamps handed out",
		func(st Status) int64 { return st.Served })
	m.counter("percolator.tso.store.writes", "{write}", "Writes sent to the store",
		func(Status) int64 { return s.elector.writes.Load() })
	m.counter("percolator.tso.elections", "{election}", "Times that this server became the leader",
		func(Status) int64 { return s.elector.elections.Load() })
	m.gauge("percolator.tso.leading", "", "1 while this server can hand out timestamps",
		func(st Status) int64 { return oneIf(st.Leading) })
	m.gauge("percolator.tso.sessions", "{session}", "Sessions that are open at this server",
		func(Status) int64 { sessions, _ := s.liveness.counts(); return int64(sessions) })
	m.gauge("percolator.tso.row_locks", "{lock}", "Rows that are locked at this server",
		func(Status) int64 { _, rowLocks := s.liveness.counts(); return int64(rowLocks) })
	m.measure("percolator.tso.ready", "", "1 while this server leads, or follows a leader that it knows",
		func(st Status) (float64, bool) { return float64(oneIf(st.Ready() == nil)), true })
	m.measure("percolator.tso.epoch", "", "Counts the leaders, in the record seen last",
		func(st Status) (float64, bool) { return float64(st.Record.Epoch), true })
	m.measure("percolator.tso.lease.left", "s", "For how long this server can lead without the store; 0 while it does not lead",
		func(st Status) (float64, bool) { return st.LeaseLeft.Seconds(), true })
	m.measure("percolator.tso.window.left", "s", "For how much time timestamps are reserved and not handed out; 0 while it does not lead",
		func(st Status) (float64, bool) { return st.windowLeft.Seconds(), true })
	m.measure("percolator.tso.high_water.ahead", "s", "How far the high-water mark is ahead of this machine's clock",
		func(st Status) (float64, bool) {
			return st.Record.HighWater.Sub(s.elector.clock.now()).Seconds(), st.Record.HighWater > 0
		})
	m.measure("percolator.tso.store.silence", "s", "How long the store has not answered; -1 before its first answer",
		func(st Status) (float64, bool) {
			if st.StoreAnswered < 0 {
				return -1, true
			}
			return st.StoreAnswered.Seconds(), true
		})
	return m.register(s.Status)
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (m *instruments) counter(name, unit, description string, value func(Status) int64) {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(c, err, func(o metric.Observer, st Status) { o.ObserveInt64(c, value(st)) })
}

func (m *instruments) gauge(name, unit, description string, value func(Status) int64) {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(g, err, func(o metric.Observer, st Status) { o.ObserveInt64(g, value(st)) })
}

// measure adds a gauge that is observed while its value is known.
func (m *instruments) measure(name, unit, description string, value func(Status) (v float64, known bool)) {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(g, err, func(o metric.Observer, st Status) {
		if v, known := value(st); known {
			o.ObserveFloat64(g, v)
		}
	})
}

func (m *instruments) add(instrument metric.Observable, err error, observe func(metric.Observer, Status)) {
	m.all, m.observe, m.err = append(m.all, instrument), append(m.observe, observe), errors.Join(m.err, err)
}

func (m *instruments) register(status func() Status) (unregister func(), err error) {
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := status()
		for _, observe := range m.observe {
			observe(o, st)
		}
		return nil
	}, m.all...)
	if err = errors.Join(m.err, err); err != nil {
		return nil, fmt.Errorf("tso: registering metrics: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil
}
