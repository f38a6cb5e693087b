//go:build unix

package tso

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

var (
	fireFor  = flag.Duration("fire", 0, "how long TestOrderUnderFire lasts; 0: every kind of trouble once, of which a run that is not of every case has half")
	fireSeed = flag.Uint64("fire.seed", 0, "the seed of TestOrderUnderFire; 0: another one every time")
)

const (
	fireClients = 3
	fireCallers = 100 // of each client
	fireDirect  = 2   // callers of each server at its own address
	fireLease   = time.Second
	fireRest    = 40 * time.Millisecond // of a caller, between calls

	// fireKept is how many calls of a caller in a step go into the history.
	fireKept = 200
)

// fire is three servers, each a process, and everybody who calls them.
type fire struct {
	*testing.T
	ctx     context.Context
	rng     *rand.Rand
	store   *fireStore
	record  Store
	servers []*oracleProcess
	raw     []*rawServer // one for each server
	lasting []*rawServer // and one for calls that wait while it is stopped

	witness  *witness
	probe    *caller   // the test's own calls
	callers  []*caller // of the clients
	refused  atomic.Int64
	failures int // of leaders so far
}

// rawServer is a connection to one server.
type rawServer struct {
	tsopb.OracleClient
	sent atomic.Int64 // requests that have left this process
}

// TestOrderUnderFire is the promise of the oracle (I1) under everything that may happen
// to it: three servers in processes of their own share a store, and are killed, stopped
// and continued, ended, and cut off from the store; the store loses answers and delivers
// writes late and twice; clocks are set by hours. Three clients with 100 callers each
// call again and again, and others call every server at its own address. With -fire and
// where every case runs they do not rest between calls. Other runs do half of that to the servers.
//
// All calls are checked for order and uniqueness, and a part by porcupine: of every
// step, the first calls of one caller of each client and of one of each server.
//
//	go test ./tso -race -run TestOrderUnderFire -v -fire 10m
func TestOrderUnderFire(t *testing.T) { // not beside others: hundreds of callers and short leases
	if testing.Short() {
		t.Skip("processes are started only by the whole tests")
	}
	f := startFire(t)
	first := stored(t, f.record).Epoch
	stopCalls := f.call()
	f.everyoneGetsOn()
	steps := f.steps()
	f.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	if *fireFor == 0 && !everyCase() {
		steps = steps[:len(steps)/2]
	}
	for started, n := time.Now(), 0; (n < len(steps) || time.Since(started) < *fireFor) && !t.Failed(); n++ {
		if n > 0 && n%len(steps) == 0 {
			f.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		}
		step := steps[n%len(steps)]
		f.witness.part.Add(1)
		at := time.Now()
		step.run()
		f.everyoneGetsOn()
		t.Logf("%6.1fs %-65s %5.1fs, %d timestamps so far", time.Since(started).Seconds(), step.name, time.Since(at).Seconds(), f.witness.calls())
	}
	stopCalls()
	last := stored(t, f.record)
	if f.witness.greatest() > last.HighWater {
		t.Errorf("served %d, stored only %d", f.witness.greatest(), last.HighWater)
	}
	if epochs := last.Epoch - first; epochs < int64(f.failures) {
		t.Errorf("%d leaders failed, and only %d followed", f.failures, epochs)
	}
	if f.refused.Load() == 0 {
		t.Error("no server ever refused")
	}
	f.witness.check(t)
}

func startFire(t *testing.T) *fire {
	t.Helper()
	seed := *fireSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-fire.seed %d", seed)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	f := &fire{T: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 1)), witness: newWitness()}
	f.store = startFireStore(t, rand.New(rand.NewPCG(seed, 2)))
	f.record = NewBigtableStore(openTable(t, f.store.address, observer), "default")
	if err := Initialize(ctx, f.record); err != nil {
		t.Fatal(err)
	}
	f.probe = f.witness.caller()
	for i := range 3 {
		p := &oracleProcess{T: t, order: processOrder{
			Store: f.store.address, Profile: fmt.Sprintf("server-%d", i), Listen: steadyAddress(t), Lease: fireLease, Window: fireLease,
		}}
		p.start()
		f.servers, f.raw = append(f.servers, p), append(f.raw, f.dialRaw(p.order.Listen))
		f.lasting = append(f.lasting, f.dialRaw(p.order.Listen))
	}
	return f
}

// within waits until cond holds.
func (f *fire) within(what string, cond func() bool) {
	f.Helper()
	pause := 2 * time.Millisecond
	for deadline := time.Now().Add(processLimit); !cond(); pause = min(pause+pause/10, 20*time.Millisecond) {
		if f.Failed() {
			f.FailNow()
		}
		if time.Now().After(deadline) {
			f.Fatalf("not within %v: %s", processLimit, what)
		}
		time.Sleep(pause)
	}
}

// dialRaw connects to one server, and goes on trying to.
func (f *fire) dialRaw(address string) *rawServer {
	f.Helper()
	r := &rawServer{}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(r),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	r.OracleClient = tsopb.NewOracleClient(conn)
	return r
}

// next asks for one timestamp.
func (r *rawServer) next(ctx context.Context, limit time.Duration) (Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := r.Next(ctx, &tsopb.NextRequest{Count: 1})
	return Timestamp(resp.GetFirst()), err
}

// The methods of stats.Handler.
func (r *rawServer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *rawServer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *rawServer) HandleConn(context.Context, stats.ConnStats)                       {}
func (r *rawServer) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); ok {
		r.sent.Add(1)
	}
}

// call starts everybody who calls, until stop.
func (f *fire) call() (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	rest := fireRest
	if *fireFor > 0 || everyCase() {
		rest = 0
	}
	run := func(c *caller, kept int, next func() (Timestamp, error), failed func(error)) {
		wg.Go(func() {
			for part, n := int64(-1), 0; ctx.Err() == nil; n++ {
				if now := f.witness.part.Load(); now != part {
					part, n = now, 0
				}
				err := c.call(n < kept, next)
				switch {
				case errors.Is(err, errDisorder):
					f.Error(err)
					return
				case err != nil && ctx.Err() == nil:
					failed(err)
				case rest > 0:
					_ = sleep(ctx, rest)
				}
			}
		})
	}
	var addresses []string
	for _, p := range f.servers {
		addresses = append(addresses, p.order.Listen)
	}
	for range fireClients {
		client := dial(f.T, strings.Join(addresses, ","), WithTimeout(processLimit), WithCallTimeout(300*time.Millisecond))
		for i := range fireCallers {
			c := f.witness.caller()
			f.callers = append(f.callers, c)
			kept := 0
			if i == 0 {
				kept = fireKept
			}
			run(c, kept, func() (Timestamp, error) { return client.Next(ctx) }, func(err error) { f.Errorf("caller %d: %v", c.id, err) })
		}
	}
	for _, r := range f.raw {
		for i := range fireDirect {
			kept := 0
			if i == 0 {
				kept = fireKept
			}
			run(f.witness.caller(), kept, func() (Timestamp, error) { return r.next(ctx, processLimit) }, func(err error) {
				if status.Code(err) == codes.FailedPrecondition {
					f.refused.Add(1)
				}
				_ = sleep(ctx, 5*time.Millisecond)
			})
		}
	}
	stop = func() {
		cancel()
		wg.Wait()
	}
	f.Cleanup(stop) // before the clients are closed
	return stop
}

// everyoneGetsOn waits until every caller of a client has got a timestamp.
func (f *fire) everyoneGetsOn() {
	f.Helper()
	before := make([]int64, len(f.callers))
	for i, c := range f.callers {
		before[i] = c.gotOn.Load()
	}
	for i, c := range f.callers {
		f.within(fmt.Sprintf("caller %d gets on", c.id), func() bool { return c.gotOn.Load() > before[i]+1 })
	}
}

// leader waits until a server other than the given one leads and serves.
func (f *fire) leader(notThis int) (leader int) {
	f.Helper()
	f.within("another server leads", func() bool {
		address := stored(f.T, f.record).Address
		for i, p := range f.servers {
			if i == notThis || p.order.Listen != address {
				continue
			}
			leader = i
			return f.ask(f.raw[i]) == nil
		}
		return false
	})
	return leader
}

// ask is a call of the test itself.
func (f *fire) ask(r *rawServer) error {
	f.Helper()
	err := f.probe.call(false, func() (Timestamp, error) { return r.next(f.ctx, time.Second) })
	if errors.Is(err, errDisorder) {
		f.Fatal(err)
	}
	return err
}
