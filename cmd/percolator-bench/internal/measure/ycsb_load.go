package measure

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/ycsb"
)

// ycsbLoad is callers that make the operations of a workload.
type ycsbLoad struct {
	callers   []*ycsb.Caller
	latencies recorder
	counts    [ycsb.Kinds]atomic.Int64
	failed    atomic.Int64
	suffers   bool // operations may fail
}

func newYCSBLoad(w ycsb.Workload, d *ycsb.Data, s ycsb.Store, callers int, seed uint64) *ycsbLoad {
	l := &ycsbLoad{callers: make([]*ycsb.Caller, callers)}
	for i := range l.callers {
		l.callers[i] = ycsb.NewCaller(w, d, s, seed+uint64(i))
	}
	return l
}

// run makes at least as many operations as there are callers.
func (l *ycsbLoad) run(ctx context.Context, more func() bool) error {
	var asked atomic.Int64
	g := generator{callers: len(l.callers), more: func() bool { return asked.Add(1) <= int64(len(l.callers)) || more() }}
	return g.run(ctx, func(ctx context.Context, caller int, _ time.Time) error {
		started := time.Now()
		kind, err := l.callers[caller].Operate(ctx)
		if err != nil && l.suffers && ctx.Err() == nil {
			l.failed.Add(1)
			return nil
		}
		l.latencies.record(time.Since(started))
		l.counts[kind].Add(1)
		return err
	})
}
