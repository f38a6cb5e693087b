package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
)

// lull is a time in which no session begins a transaction, and after which the oracle's time has
// moved on. Thousands of transactions take seconds of virtual time, and what operators and
// collectors do takes minutes: most of it is waiting, which costs nothing.
type lull struct {
	mu    sync.Mutex
	d     time.Duration
	until time.Time
}

// lulls is how many there are in an episode, at most.
const lulls = 8

// begin begins one.
func (l *lull) begin(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d, l.until = d, time.Now().Add(d)
}

// length is how long the lull is, at present; 0: there is none.
func (l *lull) length() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().After(l.until) {
		return 0
	}
	return l.d
}

// wait waits for its end.
func (l *lull) wait(ctx context.Context) error {
	l.mu.Lock()
	d := time.Until(l.until)
	l.mu.Unlock()
	if d <= 0 {
		return ctx.Err()
	}
	return retry.Sleep(ctx, d)
}

// await waits until there were enough transactions, and has the sessions rest now and then. Some
// processes are stopped in the middle of their work before, and find that the world has changed
// when they go on after it.
func (w *world) await(ctx context.Context) {
	r := w.dice.next("lulls")
	drain := catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing))
	every := 1 + w.cfg.Transactions/lulls
	for next := every; w.history.Len() < w.cfg.Transactions && time.Since(w.begun) < longest; time.Sleep(100 * time.Millisecond) {
		if w.history.Len() >= next {
			next = w.history.Len() + every
			d, own := drain/2+time.Duration(r.Int64N(int64(2*drain))), rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
			for range own.IntN(lullStops) {
				w.cutFromOracle(ctx, own, time.Duration(own.Int64N(int64(2*drain))))
			}
			for range own.IntN(lullStops) {
				w.stopFor(ctx, own, d+time.Duration(own.Int64N(int64(2*w.cfg.LockTTL))))
			}
			w.lull.begin(d)
			w.oracle.pass(time.Duration(r.Int64N(int64(2 * w.cfg.Retention))))
		}
	}
}

// lullStops bounds, exclusively, how many processes are stopped for a lull.
const lullStops = 3
