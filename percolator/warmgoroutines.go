package percolator

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// A goroutine begins with a small stack, and sending a request grows it several times over, which costs about a tenth of the request. A
// transaction of ten rows would pay that ten times. So goroutines that have sent a request are kept for a moment, for the next.
//
// There are at most warmMost for each processor. More requests in flight than that are more than a processor can send and receive while one of them
// is under way, even where that takes milliseconds; they would only be stacks for the garbage collector to look at.
type warmGoroutines struct {
	ctx   context.Context // ends with the client
	tasks chan func()
	most  int64
	alive atomic.Int64
}

const warmMost = 64

// keepWarm is how long a goroutine waits for something to do.
const keepWarm = time.Second

func newWarmGoroutines(ctx context.Context) *warmGoroutines {
	return &warmGoroutines{ctx: ctx, tasks: make(chan func()), most: int64(warmMost * runtime.GOMAXPROCS(0))}
}

// run calls f on a goroutine that waits, or on a new one, without waiting for it; false: all there may be are busy.
func (w *warmGoroutines) run(f func()) bool {
	select {
	case w.tasks <- f:
		return true
	default:
	}
	if w.alive.Add(1) > w.most {
		w.alive.Add(-1)
		return false
	}
	go w.work(f)
	return true
}

func (w *warmGoroutines) work(f func()) {
	defer w.alive.Add(-1)
	idle := time.NewTimer(keepWarm)
	defer idle.Stop()
	for {
		f()
		idle.Reset(keepWarm)
		select {
		case f = <-w.tasks:
		case <-idle.C:
			return
		case <-w.ctx.Done():
			return
		}
	}
}
