package measure

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// badDayFault is one way in which the service fails.
type badDayFault struct {
	kind  string // of --only; "": none of them
	name  string
	lasts time.Duration
	calm  time.Duration // after it
	begin func(context.Context, *badDay) (end func() error, err error)

	// What is wanted: 0 is nothing.
	longest time.Duration // that a transfer takes
	after   float64       // p99 in the second half of the calm, in the greater of the quiet times before and after
	cost    float64       // requests a transfer, in those of the quiet time
}

// What the stand-in is like on such a day.
const (
	badDayRequest = 100 * time.Microsecond // that the processor takes for a request
	badDaySlow    = 10 * time.Millisecond  // that a slow tablet takes longer for each
	badDayGrowth  = 0.05                   // seconds by which the processor's queue grows in one
	badDayTold    = time.Second            // that RetryInfo says
	badDaySurge   = 4                      // times as many transfers come besides those that come anyway
	oracleMost    = 5 * time.Second        // callers wait 10 s for a timestamp
)

// badDayTablets are where the tables are cut into eight tablets.
var badDayTablets = []string{"2", "4", "6", "8", "a", "c", "e"}

// badDayOverload refuses requests of some methods.
type badDayOverload struct {
	methods []string
	err     error
}

// judge is the emulator's OnRequest.
func (d *badDay) judge(r emulator.Request) error {
	o := d.overload.Load()
	if o == nil || !slices.Contains(o.methods, r.Method) {
		return nil
	}
	d.refused.Add(1)
	return o.err
}

// badDayCourse are the parts of a run. A silence has a quiet time as long as its second half of
// calm on either side, as no two stretches of a busy machine have the same p99.
func badDayCourse(b *badDayBenchmark) []badDayFault {
	quiet := badDayFault{name: "quiet", lasts: b.Quiet, begin: nothing}
	again, end := quiet, quiet
	again.name, end.name = "quiet, again", "quiet, at the end"
	course := []badDayFault{quiet}
	for _, f := range badDayFaults(b) {
		if f.calm = b.Calm; f.after > 0 {
			f.calm = 2 * b.Quiet
			course = append(course, f, again)
			continue
		}
		course = append(course, f)
	}
	return append(course, end)
}

// badDayFaults are the faults of a run, in their order.
func badDayFaults(b *badDayBenchmark) []badDayFault {
	faults := []badDayFault{
		{kind: "silent", name: "one connection of ten silent", lasts: b.Silent, begin: silence, longest: 15 * time.Second, after: 1.5},
		{kind: "reset", name: "all connections reset", lasts: b.Fault, begin: each(emulator.Connection.Reset)},
		{kind: "goaway", name: "GOAWAY on all connections", lasts: b.Fault, begin: each(emulator.Connection.GoAway)},
	}
	writes, reads, bulk := "CheckAndMutateRow", kindReadRows, "MutateRows"
	for _, o := range []struct {
		name    string
		methods []string
	}{{"conditional mutations", []string{writes}}, {"reads", []string{reads}}, {"bulk mutations", []string{bulk}}, {"everything", []string{writes, reads, bulk}}} {
		for _, told := range []time.Duration{0, badDayTold} {
			name := o.name + " refused"
			if told > 0 {
				name += fmt.Sprintf(", told to wait %v", told)
			}
			faults = append(faults, badDayFault{kind: "overload", name: name, lasts: b.Overload, begin: overload(o.methods, told), cost: 1.2})
		}
	}
	faults = append(faults,
		badDayFault{kind: "full", name: "the disks are full", lasts: b.Fault, begin: full},
		badDayFault{kind: "slow", name: "a slow tablet", lasts: b.Fault, begin: slowTablet},
		badDayFault{kind: "away", name: "a tablet that is away", lasts: b.Fault, begin: awayTablet},
		badDayFault{kind: "cpu", name: "CPU at 100 %", lasts: b.Fault, begin: busy},
		badDayFault{kind: "surge", name: "five times as many callers", lasts: b.Fault, begin: surge},
		badDayFault{kind: "oracle", name: "the oracle is unreachable", lasts: min(b.Fault, oracleMost), begin: oracleAway},
	)
	return slices.DeleteFunc(faults, func(f badDayFault) bool { return len(b.Only) > 0 && !slices.Contains(b.Only, f.kind) })
}

// ended is the end of a fault that ends by itself.
func ended() error { return nil }

func nothing(context.Context, *badDay) (func() error, error) { return ended, nil }

// silence makes one connection swallow everything. The client's keepalive closes it.
func silence(_ context.Context, d *badDay) (func() error, error) {
	all := d.bigtable.Connections()
	if len(all) < badDayConnections {
		return nil, fmt.Errorf("%d connections", len(all))
	}
	all[rand.New(rand.NewPCG(d.b.Seed, 0)).IntN(len(all))].Silence()
	return ended, nil
}

func each(f func(emulator.Connection)) func(context.Context, *badDay) (func() error, error) {
	return func(_ context.Context, d *badDay) (func() error, error) {
		for _, c := range d.bigtable.Connections() {
			f(c)
		}
		return ended, nil
	}
}

func overload(methods []string, told time.Duration) func(context.Context, *badDay) (func() error, error) {
	return func(_ context.Context, d *badDay) (func() error, error) {
		d.overload.Store(&badDayOverload{methods, emulator.Overloaded(told)})
		return func() error { d.overload.Store(nil); return nil }, nil
	}
}

func full(_ context.Context, d *badDay) (func() error, error) {
	d.bigtable.SetFull(true)
	return func() error { d.bigtable.SetFull(false); return nil }, nil
}

// slowTablet slows an eighth of the accounts down.
func slowTablet(_ context.Context, d *badDay) (func() error, error) {
	d.disks.Slow(fig10Accounts, badDayTablets[0], badDaySlow)
	return func() error { d.disks.Slow(fig10Accounts, badDayTablets[0], 0); return nil }, nil
}

// awayTablet takes an eighth of the accounts from its node.
func awayTablet(_ context.Context, d *badDay) (func() error, error) {
	load := d.disks.Unload(fig10Accounts, badDayTablets[1])
	return func() error { load(); return nil }, nil
}

// busy gives the processor so much other work that its queue grows all the time.
func busy(ctx context.Context, d *badDay) (func() error, error) {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ; ctx.Err() == nil; pause(ctx, soon) {
			queue := time.Duration(badDayGrowth * float64(time.Since(began)))
			d.processor.Occupy(max(queue-d.processor.Backlog(), 0))
		}
	}()
	return func() error { cancel(); <-stopped; return nil }, nil
}

// surge offers transfers besides those that come anyway.
func surge(ctx context.Context, d *badDay) (func() error, error) {
	var stop atomic.Bool
	d.surges.Go(func() {
		load := generator{rate: badDaySurge * d.rate, most: mostPending, more: func() bool { return !stop.Load() }}
		_, _, _ = load.arrive(ctx, func(ctx context.Context, _ int) error { d.load.one(ctx); return nil }) // ctx's error
	})
	return func() error { stop.Store(true); return nil }, nil
}

// oracleAway stops the oracle's server, and starts another one on the same address.
func oracleAway(ctx context.Context, d *badDay) (func() error, error) {
	return func() error { d.startOracle(ctx); return d.err }, d.stopOracle()
}

// startOracle serves the oracle, at the address that it had.
func (d *badDay) startOracle(ctx context.Context) {
	l := opened(d.environment, func() (net.Listener, error) { return net.Listen("tcp", cmp.Or(d.at.Oracle, "127.0.0.1:0")) })
	server := d.newOracle(d.record, tso.ServerConfig{})
	if d.err != nil {
		d.stopOracle = ended
		return
	}
	d.at.Oracle = l.Addr().String()
	open := len(d.closers)
	d.stopOracle = d.background(context.WithoutCancel(ctx), func(ctx context.Context) error { return server.Serve(ctx, l) })
	d.closers = d.closers[:open] // the first server's is that of all
}
