package measure

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// generator makes calls: it is a load generator.
type generator struct {
	callers int         // of run: each waits for its calls
	rate    float64     // calls a second, of all callers together; 0: each calls again at once
	random  bool        // of arrive: at random moments, a Poisson process; otherwise evenly spread
	more    func() bool // asked before each call but the first of all
	most    int64       // of arrive: calls under way at once; what is due beyond them is not made, but counted. 0: any number
}

// during is a more for so long.
func during(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().Before(end) }
}

// run lets each caller call when it is due and its last call is over, and waits for all of them. A
// call is told when it was due: one that is late counts as waiting. It ends at the first error.
func (g generator) run(ctx context.Context, call func(ctx context.Context, caller int, due time.Time) error) error {
	group, ctx := errgroup.WithContext(ctx)
	period := time.Duration(0)
	if g.rate > 0 {
		period = time.Duration(float64(g.callers) / g.rate * float64(time.Second))
	}
	begun := time.Now()
	for caller := range g.callers {
		group.Go(func() error {
			ctx, cancel := context.WithCancel(ctx) // one for all would be a lock that all calls take
			defer cancel()
			for due := begun.Add(period * time.Duration(caller) / time.Duration(g.callers)); g.more(); due = due.Add(period) {
				if err := sleepUntil(ctx, due); err != nil {
					return err
				}
				if err := call(ctx, caller, due); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// arrive makes each call when it is due, whatever becomes of those before it, waits for all of
// them, and returns how many were shed.
func (g generator) arrive(ctx context.Context, call func(ctx context.Context, i int) error) (shed int64, err error) {
	group, ctx := errgroup.WithContext(ctx)
	random := rand.New(rand.NewPCG(1, 2))
	var pending atomic.Int64
	due := time.Now()
	for i := 0; ; i++ {
		wait := 1.0
		if g.random {
			wait = random.ExpFloat64()
		}
		due = due.Add(time.Duration(wait / g.rate * float64(time.Second)))
		if sleepUntil(ctx, due) != nil || i > 0 && !g.more() {
			return shed, group.Wait()
		}
		if pending.Add(1) > g.most && g.most > 0 {
			pending.Add(-1)
			shed++
			continue
		}
		group.Go(func() error {
			defer pending.Add(-1)
			return call(ctx, i)
		})
	}
}

func pause(ctx context.Context, d time.Duration) error { return sleepUntil(ctx, time.Now().Add(d)) }

// soon is a wait that nobody has to be able to break off: time.Sleep allocates nothing.
const soon = 10 * time.Millisecond

func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= soon {
		time.Sleep(wait)
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
