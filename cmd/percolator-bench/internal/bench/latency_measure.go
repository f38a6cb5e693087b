package bench

import (
	"context"
	"fmt"
	"time"
)

// count runs transactions one by one, each until its phase two is over, and counts their requests. Before them is one that does not
// count: with the first blind transaction of a client no timestamp is at hand.
func (f *latencyField) count(ctx context.Context, w *latencyWork) (Requests, error) {
	const kinds = 5
	var seen [kinds][]int
	for i := range 1 + countedTransactions {
		before := f.counts()
		if _, err := f.run(ctx, w); err != nil {
			return Requests{}, err
		}
		if err := f.client.Flush(ctx); err != nil {
			return Requests{}, fmt.Errorf("phase two: %w", err)
		}
		for kind, n := range f.counts() {
			if i > 0 {
				seen[kind] = append(seen[kind], n-before[kind])
			}
		}
	}
	return Requests{
		Counted: countedTransactions, ReadRows: rangeOf(seen[0]), CheckAndMutateRow: rangeOf(seen[1]), MutateRows: rangeOf(seen[2]),
		Storage: rangeOf(seen[3]), Oracle: rangeOf(seen[4]),
	}, nil
}

func (f *latencyField) counts() [5]int {
	r, c, m := int(f.sent.readRows.Load()), int(f.sent.checkAndMutateRow.Load()), int(f.sent.mutateRows.Load())
	return [5]int{r, c, m, r + c + m, int(f.oracle.waited.Load())}
}

// timedWork is what was measured of one kind of transaction, an entry for each repetition.
type timedWork struct {
	means, multiples []float64 // milliseconds, raw requests
	atHand           int       // transactions that waited for one timestamp only
	ahead            int64     // timestamps that were fetched in the background
}

// rawTimes are the means of raw requests, in milliseconds, an entry for each repetition of each kind of transaction.
type rawTimes struct{ reads, mutates []float64 }

// time measures one repetition: transactions and raw requests in turns, each of both kinds of these as often as the other.
func (f *latencyField) time(ctx context.Context, cfg LatencyConfig, w *latencyWork, out *timedWork, raw *rawTimes) error {
	const rawEach = 3 // raw requests of each kind in a turn
	var ours, reads, mutates time.Duration
	ahead, n := f.oracle.ahead.Load(), 0
	for i := 0; i < cfg.Iterations; {
		for range rawEach {
			r, err := timed(ctx, f.rawRead)
			if err != nil {
				return fmt.Errorf("raw ReadRow: %w", err)
			}
			m, err := timed(ctx, f.rawMutate)
			if err != nil {
				return fmt.Errorf("raw MutateRow: %w", err)
			}
			reads, mutates, n = reads+r, mutates+m, n+1
		}
		for end := min(i+latencyTurn, cfg.Iterations); i < end; i++ {
			waited := f.oracle.waited.Load()
			d, err := f.run(ctx, w)
			if err != nil {
				return err
			}
			if ours += d; f.oracle.waited.Load()-waited == 1 {
				out.atHand++
			}
		}
		if err := f.client.Flush(ctx); err != nil { // the raw requests are not to meet it
			return fmt.Errorf("phase two: %w", err)
		}
	}
	mean, r, m := millis(ours, cfg.Iterations), millis(reads, n), millis(mutates, n)
	out.ahead += f.oracle.ahead.Load() - ahead
	out.means, out.multiples = append(out.means, mean), append(out.multiples, mean/((r+m)/2))
	raw.reads, raw.mutates = append(raw.reads, r), append(raw.mutates, m)
	return nil
}

func millis(total time.Duration, n int) float64 {
	return float64(total) / float64(time.Millisecond) / float64(n)
}

func timed(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	begun := time.Now()
	err := f(ctx)
	return time.Since(begun), err
}
