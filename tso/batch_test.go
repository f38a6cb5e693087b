package tso

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowdOf is callers of a batcher that come and go while a sender takes and answers,
// late at times, or with an error.
type crowdOf struct {
	*testing.T
	q       *batcher
	reached atomic.Int64 // the first timestamp of the request that was served last
	asked   atomic.Int64
	seen    sync.Map
}

var errNoAnswer = errors.New("no answer")

// send serves requests until stop is closed.
func (c *crowdOf) send(r *rand.Rand, stop <-chan struct{}) {
	next := Timestamp(1)
	for {
		_, n := c.q.take()
		if n == 0 {
			select {
			case <-c.q.ready:
				continue
			case <-stop:
				return
			}
		}
		if n > MaxBatch || n > c.q.full*len(c.q.shards) {
			c.Errorf("a batch of %d", n)
		}
		first := next
		next += Timestamp(n)
		c.reached.Store(int64(first))
		switch r.IntN(50) {
		case 0:
			time.Sleep(2 * gracePeriod) // the answer is late
		case 1:
			c.q.answer(0, errNoAnswer)
			continue
		}
		c.q.answer(first, nil)
	}
}

// ask asks once, and checks that the answer is the caller's own and from a request that
// was served after it asked. It reports whether the batcher is closed.
func (c *crowdOf) ask(ctx context.Context) (closed bool) {
	before := c.reached.Load()
	p, position, err := c.q.join(1)
	if err != nil {
		return true
	}
	if p.wait(ctx, position) != nil || p.err != nil {
		return false
	}
	c.asked.Add(1)
	if position >= p.n {
		c.Errorf("position %d of %d", position, p.n)
	}
	if int64(p.first) < before {
		c.Errorf("an answer that begins with %d, from before the request that began with %d", p.first, before)
	}
	if _, twice := c.seen.LoadOrStore(p.first+Timestamp(position), true); twice {
		c.Errorf("timestamp %d twice", p.first+Timestamp(position))
	}
	return false
}

// Nobody is lost, gets what another got, or is answered from a request that was on the
// way before, whatever the sizes of parts and the moments at which contexts end and the
// batcher is closed.
func TestBatcherUnderPressure(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	enough := int64(20_000)
	if !everyCase() {
		enough /= 4
	}
	for _, full := range []int{1, 3, 7, MaxBatch} {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			t.Parallel()
			c := &crowdOf{T: t, q: newBatcher()}
			c.q.full = min(full, c.q.full)
			stop, sent := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(sent)
				c.send(rand.New(rand.NewPCG(uint64(full), 1)), stop)
			}()
			var callers sync.WaitGroup
			for i := range 300 {
				r := rand.New(rand.NewPCG(uint64(full), uint64(i)))
				callers.Go(func() {
					for closed := false; !closed; {
						ctx, cancel := t.Context(), func() {}
						if r.IntN(3) == 0 {
							ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(30))*time.Millisecond)
						}
						closed = c.ask(ctx)
						cancel()
					}
				})
			}
			enough := enough * int64(min(full, 4)) / 4 // requests of few timestamps take longer
			eventually(t, "timestamps were handed out", func() bool { return c.asked.Load() > enough })
			c.q.close(errClientClosed)
			callers.Wait()
			close(stop)
			<-sent
		})
	}
}

// Callers who come while an answer is late watch their contexts at once, without a timer.
func TestCallersOfLateAnswers(t *testing.T) {
	q := newBatcher()
	join := func() *part {
		p, _, err := q.join(1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	join()
	q.take()
	q.delay()
	q.timer.Stop()
	p := join()
	if got := p.state.Load(); got != late {
		t.Errorf("a part that began while the answer was late has the state %d, want %d", got, late)
	}
	q.answer(1, nil)
	q.take()
	if got := join().state.Load(); got != waiting {
		t.Errorf("a part that began after the answer has the state %d, want %d", got, waiting)
	}
	q.answer(2, nil)
	if err := p.wait(t.Context(), attentive); err != nil || p.first != 2 {
		t.Errorf("the late part got %d, %v, want 2", p.first, err)
	}
}
