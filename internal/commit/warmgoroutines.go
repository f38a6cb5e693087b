package commit

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/reads"
)

// A goroutine begins with a small stack, and sending a request grows it several times over, which
// costs about a tenth of the request. A transaction of ten rows would pay that ten times. So
// goroutines that have sent a request are kept for a moment, for the next.
//
// At most warmMost functions for each processor run on them. More requests in flight than that are
// more than a processor can send and receive while one of them is under way, even where that takes
// milliseconds; they would only be stacks for the garbage collector to look at. One that takes
// longer than warmTimeout gives up its place: it waits for a row that has no server, and must not
// hold up those who want others.
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

func NewWarmGoroutines(ctx context.Context) *warmGoroutines {
	return &warmGoroutines{ctx: ctx, tasks: make(chan func()), most: int64(warmMost * runtime.GOMAXPROCS(0))}
}

// Run calls f on a goroutine that waits, or on a new one, without waiting for it; false: all there
// may be are busy.
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
