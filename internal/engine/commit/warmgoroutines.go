package commit

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/reads"
)

// WarmGoroutines keeps goroutines that have sent a request for a moment, for the next one. A
// goroutine begins with a small stack, and sending a request grows it several times over, at about
// a tenth of the request's cost. A transaction of ten rows would pay that ten times.
//
// At most warmMost functions for each processor run at once. A processor cannot send and receive
// more requests while one is in flight, even where that takes milliseconds; more would only be
// stacks for the garbage collector to scan. A function that takes longer than warmTimeout gives up
// its slot: it waits for a row that has no server, and must not hold up the others.
type WarmGoroutines struct {
	ctx   context.Context // ends with the client
	tasks chan warmTask   // an idle goroutine receives from it
	most  int64           // functions at once
	busy  atomic.Int64    // slots that are taken, at most that many
}

// warmTask is a function with the slot that it holds.
type warmTask struct {
	do    func()
	leave func() (held bool)
}

func (t warmTask) run() {
	defer t.leave()
	t.do()
}

const (
	warmMost    = 64
	warmTimeout = 100 * time.Millisecond
)

// keepWarm is how long a goroutine waits for something to do.
const keepWarm = time.Second

// NewWarmGoroutines keeps goroutines until ctx ends.
func NewWarmGoroutines(ctx context.Context) *WarmGoroutines {
	return &WarmGoroutines{ctx: ctx, tasks: make(chan warmTask), most: int64(warmMost * runtime.GOMAXPROCS(0))}
}

// run calls f on an idle goroutine, or on a new one, without waiting for it; false: all slots are
// taken.
func (w *WarmGoroutines) run(f func()) bool {
	if w.busy.Add(1) > w.most {
		w.busy.Add(-1)
		return false
	}
	task := warmTask{f, reads.HoldSlot(warmTimeout, func() { w.busy.Add(-1) })}
	select {
	case w.tasks <- task:
	default:
		go w.work(task)
	}
	return true
}

func (w *WarmGoroutines) work(task warmTask) {
	idle := time.NewTimer(keepWarm)
	defer idle.Stop()
	for {
		task.run()
		task = warmTask{} // it may hold a whole transaction
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
