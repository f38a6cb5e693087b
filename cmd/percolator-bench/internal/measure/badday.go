package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// badDayBenchmark lets the service fail in every way that the stand-in knows, one fault after the
// other under a steady load, and judges what became of it.
type badDayBenchmark struct {
	Only     []string // kinds of faults; none: all
	Accounts int
	Rate     float64       // offered transfers/s; 0: badDayShare of the greatest
	Saturate time.Duration // how long writers transfer as fast as they can, to find that
	Deadline time.Duration // of each transfer and each sum

	Quiet, Calm             time.Duration // before and at the end; after each fault
	Fault, Overload, Silent time.Duration // how long a fault, an overload and a silence last
	Seed                    uint64
}

func (b *badDayBenchmark) check() error {
	return errors.Join(unless(b.Rate == 0 || b.Rate >= 1, "--rate %v is less than 1", b.Rate),
		unless(max(b.Fault, b.Overload) < b.Deadline, "--fault %v or --overload %v is not shorter than --deadline %v: callers give up", b.Fault, b.Overload, b.Deadline))
}

const (
	badDayShare = 0.25 // of the greatest rate is offered: rows have few versions at first, and less fits later
	badDayGC    = 400  // percent, as processes of others have: all data is on this heap
)

// retention is short, as collection is part of the day. Callers give up before their snapshots are
// too old.
func (b *badDayBenchmark) retention() time.Duration { return max(time.Minute, 2*b.Deadline) }

// badDay is a run in progress.
type badDay struct {
	*environment
	b          *badDayBenchmark
	bigtable   *emulator.Server
	disks      *emulator.Disks
	processor  *emulator.Processor
	overload   atomic.Pointer[badDayOverload] // nil: there is none
	refused    atomic.Int64                   // requests of all overloads
	record     tso.Store
	stopOracle func() error

	client *percolator.Client
	sent   requestCounter
	load   *transfers
	rate   float64 // that is offered
	surges sync.WaitGroup
	sums   sums
	worker *observers.Worker
	ends   func() error // of the worker
}

// badDayConnections is what Google's client has by default.
const badDayConnections = 10

func startBadDay(ctx context.Context, b *badDayBenchmark) (*badDay, error) {
	d := &badDay{environment: new(environment), b: b, record: tso.NewMemoryStore()}
	d.disks = &emulator.Disks{Bounds: map[string][]string{fig10Accounts: badDayTablets, fig10Journal: badDayTablets}}
	d.processor = &emulator.Processor{Request: badDayRequest}
	d.bigtable = d.embed(emulator.OnDisks(d.disks), emulator.OnProcessor(d.processor), emulator.OnRequest(d.judge))
	if d.err == nil {
		d.err = d.createSchema(ctx, fig10Schema())
	}
	d.startOracle(ctx)
	d.closers = append(d.closers, func() error { return d.stopOracle() })
	d.dial(ctx, d.at.Oracle)
	d.sent.own = true
	d.client = d.environment.client(ctx, percolator.Config{
		Retention: b.retention(), Bigtable: percolator.BigtableConfig{Connections: badDayConnections},
	}, d.sent.option())
	d.worker = opened(d.environment, func() (*observers.Worker, error) {
		return observers.NewWorker(d.client, fig10Registry(), observers.Config{})
	})
	if d.worker != nil {
		d.ends = d.background(ctx, d.worker.Run)
	}
	percent := debug.SetGCPercent(badDayGC)
	d.closers = append(d.closers, func() error { debug.SetGCPercent(percent); return nil })
	d.load = &transfers{client: d.client, accounts: b.Accounts, deadline: b.Deadline, seed: b.Seed}
	d.sums = sums{client: d.client, accounts: b.Accounts, deadline: b.Deadline}
	return d, d.orClose()
}

// badDayPart is a stretch of the run: a fault and the calm after it, or a quiet time. Times are
// since the start.
type badDayPart struct {
	name        string
	fault, calm span
	sent        int64 // requests
	refused     int64
}

// run takes saturate twice, and each part with its calm, and at most deadline and five minutes
// more.
func (b *badDayBenchmark) run(ctx context.Context, out *run) (err error) {
	course := badDayCourse(b)
	whole := 2*b.Saturate + b.Deadline + 5*gracePeriod
	for _, f := range course {
		whole += f.lasts + f.calm
	}
	ctx, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	out.all = 2 + len(course)
	d, err := startBadDay(ctx, b)
	if err != nil {
		return err
	}
	defer d.closeInto(&err)
	out.Emulator = d.emulator
	greatest, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	out.step()
	started := time.Now()
	parts, shed, err := d.offer(ctx, started, course, out.step)
	if err != nil {
		return err
	}
	load := out.Table("load").Row("transfers")
	load.Add("offered, 1/s", d.rate, "not started", shed)
	out.Title = fmt.Sprintf("a bad day of the service: %.0f transfers/s offered", d.rate)
	if greatest > 0 {
		last, err := d.greatest(ctx)
		if err != nil {
			return err
		}
		out.Title += fmt.Sprintf("; %d writers and the observers reach %.0f before and %.0f after", saturatingWriters, greatest, last)
		load.Add("greatest before, 1/s", greatest, "greatest after, 1/s", last)
	}
	d.evaluate(ctx, out, started, parts)
	out.step()
	return nil
}

// prepare opens the accounts and finds the rate.
func (d *badDay) prepare(ctx context.Context) (greatest float64, err error) {
	if err := d.load.open(ctx); err != nil {
		return 0, err
	}
	if d.rate = d.b.Rate; d.rate > 0 {
		return 0, nil
	}
	if greatest, err = d.greatest(ctx); err == nil && greatest == 0 {
		err = errors.New("no transfer was committed")
	}
	d.rate = badDayShare * greatest
	return greatest, err
}

// greatest finds the rate at which the observers keep up, beside the sums.
func (d *badDay) greatest(ctx context.Context) (float64, error) {
	stop := d.background(ctx, func(ctx context.Context) error { d.sums.run(ctx, func() bool { return true }); return nil })
	started := time.Now()
	committed := d.load.saturate(ctx, saturatingWriters, d.b.Saturate)
	err := d.worker.WaitIdle(ctx)
	rate := float64(committed) / time.Since(started).Seconds()
	return rate, errors.Join(err, stop())
}

// offer offers transfers and sums while the faults happen.
func (d *badDay) offer(ctx context.Context, started time.Time, course []badDayFault, step func()) (parts []badDayPart, shed int, err error) {
	var stop atomic.Bool
	more := func() bool { return !stop.Load() }
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		load := generator{rate: d.rate, most: mostPending, more: more}
		_, shed, err = load.arrive(ctx, func(ctx context.Context, _ int) error { d.load.one(ctx); return nil })
		return err
	})
	group.Go(func() error { d.sums.run(ctx, more); return nil })
	group.Go(func() error {
		defer stop.Store(true)
		for _, f := range course {
			p, err := d.part(ctx, f, started)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			parts = append(parts, p)
			step()
		}
		return nil
	})
	err = group.Wait()
	d.surges.Wait()
	return parts, shed, err
}

// part lets one fault happen, and waits for as long as it is calm after that.
func (d *badDay) part(ctx context.Context, f badDayFault, started time.Time) (badDayPart, error) {
	p := badDayPart{name: f.name, fault: span{from: time.Since(started)}}
	sent, refused := sumOf(d.sent.now().requests), d.refused.Load()
	end, err := f.begin(ctx, d)
	if err != nil {
		return p, err
	}
	pause(ctx, f.lasts)
	if err := end(); err != nil {
		return p, err
	}
	p.fault.to = time.Since(started)
	pause(ctx, f.calm)
	p.calm = span{p.fault.to, time.Since(started)}
	p.sent, p.refused = sumOf(d.sent.now().requests)-sent, d.refused.Load()-refused
	return p, ctx.Err()
}

// sums adds all balances up in one snapshot, again and again: no transfer changes the sum.
type sums struct {
	client   *percolator.Client
	accounts int
	deadline time.Duration

	mu   sync.Mutex
	done []sum
}

// betweenSums is how long a sum waits for the next: one is expensive.
const betweenSums = time.Second

type sum struct {
	due, ended time.Time
	total      int64
	err        error
}

func (l *sums) run(ctx context.Context, more func() bool) {
	for ; more() && ctx.Err() == nil; pause(ctx, betweenSums) {
		l.one(ctx)
	}
}

func (l *sums) one(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	s := sum{due: time.Now()}
	s.err = l.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		s.total = 0
		for e, err := range snap.Scan(ctx, fig10Accounts, percolator.All(), balanceColumn) {
			if err != nil {
				return err
			}
			n, err := balances.Decode(e.Cell.Row, e.Value)
			if err != nil {
				return err
			}
			s.total += n
		}
		return nil
	})
	s.ended = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, s)
}

func (l *sums) results() []sum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[:len(l.done):len(l.done)]
}
