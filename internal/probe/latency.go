package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/tso"
)

var errOrder = errors.New("the oracle gave a timestamp twice, or one below another that it had given before")

const (
	resolution = 10 * time.Microsecond // of what is printed
	operations = 6
	bulkRows   = 10              // of MutateRows
	rateLimit  = 5 * time.Second // of counting timestamps

)

func latencyCost(c *Config) Cost {
	n := operations * c.effort.samples
	return Cost{Requests: n + n/10 + 10, Bytes: int64(n) * 1024}
}

// latency measures one operation after the other.
func (p *probe) latency(ctx context.Context) (out []health.Finding) {
	const row = "latency"
	var rows []string
	var muts []*store.Mutation
	for i := range bulkRows {
		rows, muts = append(rows, fmt.Sprint(row, i)), append(muts, putting(layout.MetaFamily, "c", "value"))
	}
	for _, op := range []struct {
		name string
		send func() error
	}{
		{"MutateRow", func() error { return p.data.Open(p.table).Apply(ctx, row, setting("c", 1000, "value")) }},
		{fmt.Sprintf("MutateRows (%d rows)", bulkRows), func() error { _, err := p.backend.MutateRows(ctx, p.table, rows, muts); return err }},
		{"CheckAndMutateRow", func() error {
			_, err := p.backend.CheckAndMutate(ctx, p.table, row, store.CellExists("c"), muts[0], muts[0])
			return err
		}},
		{"ReadRows (1 row)", func() error { _, err := p.backend.ReadRow(ctx, p.table, row, store.CellExists("c")); return err }},
		{"SampleRowKeys", func() error { _, err := p.backend.SampleKeys(ctx, p.table); return err }},
		{"PingAndWarm", func() error { return p.data.PingAndWarm(ctx) }},
	} {
		took := make([]time.Duration, p.effort.samples)
		for i := range took {
			started := p.now()
			if err := op.send(); err != nil {
				return append(out, stopped(fmt.Errorf("%s: %w", op.name, err))...)
			}
			took[i] = p.now().Sub(started)
		}
		slices.Sort(took)
		f := health.Found(health.OK, "", "%s: p50 %v, p99 %v of %d", op.name, quantile(took, 50), quantile(took, 99), len(took))
		if quantile(took, 99) > p.MaxLatency {
			f.Level, f.Saw = health.Failed, f.Saw+fmt.Sprintf(", more than %v", p.MaxLatency)
		}
		out = append(out, f)
	}
	return out
}

// quantile is what percent of the sorted durations do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1].Round(resolution)
}

// oracle compares timestamps with each other and with the clock, and counts them.
func (p *probe) oracle(ctx context.Context) (out []health.Finding) {
	if p.Oracle == nil {
		if p.OracleErr != nil {
			return unable(p.OracleErr)
		}
		return health.Unchecked("no oracle is given (--tso)")
	}
	var offset, nearest time.Duration // of the answer that came soonest
	var last tso.Timestamp
	for i := range p.effort.samples {
		started := p.now()
		ts, err := p.Oracle.Next(ctx)
		if err != nil {
			return stopped(err)
		}
		if took := p.now().Sub(started); i == 0 || took < nearest {
			nearest, offset = took, ts.Time().Sub(started.Add(took/2))
		}
		if ts <= last {
			out = append(out, failed("percolator tso raise --to now+1m --fence", "the oracle gave %d and then %d", last, ts))
			return out
		}
		last = ts
	}
	var mu sync.Mutex
	var highest atomic.Int64
	seen := map[tso.Timestamp]bool{}
	started := time.Now()
	err := each(ctx, p.effort.timestamps, parallel, func(ctx context.Context, i int) error {
		if time.Since(started) > rateLimit {
			return nil
		}
		floor := highest.Load()
		ts, err := p.Oracle.Next(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[ts] || int64(ts) <= floor || ts <= last {
			return fmt.Errorf("%w: %d", errOrder, ts)
		}
		seen[ts] = true
		highest.Store(max(highest.Load(), int64(ts)))
		return nil
	})
	if errors.Is(err, errOrder) {
		return []health.Finding{failed("percolator tso raise --to now+1m --fence", "%v", err)}
	}
	if err != nil {
		return stopped(err)
	}
	rate := float64(len(seen)) / time.Since(started).Seconds()
	if ahead := tso.Timestamp(highest.Load()).Time().Sub(p.now()); ahead > health.ClockTolerance {
		offset = ahead
	}
	if offset.Abs() > health.ClockTolerance {
		return []health.Finding{failed("percolator tso status", "timestamps are %v off this machine's clock", offset.Round(time.Millisecond))}
	}
	return health.Fine("timestamps increase; %v off this machine's clock (± %v); %.0f timestamps/s from %d callers at once, over %d", offset.Round(resolution), (nearest / 2).Round(resolution), rate, parallel, len(seen))
}
