package simulation

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
)

// outages are until when the receivers of the outbox are away, by partition.
type outages struct {
	mu    sync.Mutex
	until map[int]time.Time
}

// How long a receiver is away, from the time in which an observer fails once to that in which it is
// parked and several slices wait.
const (
	awayLeast = 100 * time.Millisecond
	awayMost  = 2 * time.Minute
)

// receiverAway decides about a delivery of the outbox.
func (w *world) receiverAway(worker string, partition int) bool {
	if w.calm.Load() {
		return false
	}
	o := &w.outages
	o.mu.Lock()
	away := time.Now().Before(o.until[partition])
	o.mu.Unlock()
	if away {
		return true
	}
	r := w.dice.next("outbox", worker, fmt.Sprint(partition))
	if w.tally.oneOf(r, min(0.2*w.cfg.intensity, 0.3), receiverLeft) == "" {
		return false
	}
	until := time.Now().Add(time.Duration(float64(awayLeast) * math.Pow(float64(awayMost/awayLeast), r.Float64())))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until == nil {
		o.until = map[int]time.Time{}
	}
	o.until[partition] = until
	return true
}

// Posts in a lull, about so many by each of the posters. A lull lasts longer than a slice of the
// queue, and some transactions nearly as long as they may.
const (
	posters = 2
	posts   = 20
)

// dieOfPost has some processes die whose slow transaction has just been acknowledged: no worker has
// heard of it, and those that come later are delivered soon.
func (w *world) dieOfPost(process string) {
	if w.cfg.intensity > 0 && !w.calm.Load() && w.dice.next("posted", process).IntN(4) == 0 && w.posted.Add(1) <= postedMost {
		w.killAtOnce(process)
	}
}

// postedMost is how many processes die so in an episode, at most.
const postedMost = 24

// post adds to the outbox in lulls.
func (w *world) post(p *process) {
	var sessions sync.WaitGroup
	for range posters {
		s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		sessions.Go(func() {
			for d := time.Second; retry.Sleep(p.ctx, d) == nil; {
				d = w.lull.length() / posts
				if d == 0 {
					d = time.Second
					continue
				}
				d = time.Duration(s.Rand.Int64N(int64(2 * d)))
				ctx, cancel := context.WithTimeout(p.ctx, transactionLimit)
				s.Post(ctx, min(w.lull.length()/4, w.cfg.Retention/2))
				cancel()
			}
		})
	}
	sessions.Wait()
}
