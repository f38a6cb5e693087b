package commit

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/reads"
)

// warmGoroutines keeps goroutines that have sent a request for a moment, for the next one. A
// goroutine begins with a small stack, and sending a request grows it several times over, at about
// a tenth of the request's cost. A transaction of ten rows would pay that ten times.
//
// At most warmMost functions for each processor run at once. A processor cannot send and receive
// more requests while one is under way, even where that takes milliseconds; more would only be
// stacks for the garbage collector to scan. A function that takes longer than warmTimeout gives up
// its slot: it waits for a row that has no server, and must not hold up the others.
type warmGoroutines struct {
	ctx   context.Context // ends with the client
	tasks chan func()
	most  int64
	busy  atomic.Int64
}

const (
	warmMost    = 64
	warmTimeout = 100 * time.Millisecond
)

// keepWarm is how long a goroutine waits for something to do.
const keepWarm = time.Second

// NewWarmGoroutines keeps goroutines until ctx ends.
func NewWarmGoroutines(ctx context.Context) *warmGoroutines {
	return &warmGoroutines{ctx: ctx, tasks: make(chan func()), most: int64(warmMost * runtime.GOMAXPROCS(0))}
}

// run calls f on an idle goroutine, or on a new one, without waiting for it; false: all slots are
// taken.
func (w *warmGoroutines) run(f func()) bool {
	if w.busy.Add(1) > w.most {
		w.busy.Add(-1)
		return false
	}
	leave := reads.HoldSlot(warmTimeout, func() { w.busy.Add(-1) })
	task := func() {
		defer leave()
		f()
	}
	select {
	case w.tasks <- task:
	default:
		go w.work(task)
	}
	return true
}

func (w *warmGoroutines) work(task func()) {
	idle := time.NewTimer(keepWarm)
	defer idle.Stop()
	for {
		task()
		task = nil // it may hold a whole transaction
		idle.Reset(keepWarm)
		select {
		case task = <-w.tasks:
		case <-idle.C:
			return
		case <-w.ctx.Done():
			return
		}
	}
}
