package measure

import (
	"context"
	"fmt"
	"time"
)

// perform makes one transaction of a kind.
func (f *latencyField) perform(ctx context.Context, w *latencyWork) (time.Duration, error) {
	row := fmt.Sprintf("%s/%06d", w.name, w.transactions)
	w.transactions++
	if w.prepare != nil {
		if err := w.prepare(ctx, row); err != nil {
			return 0, fmt.Errorf("preparing: %w", err)
		}
	}
	return timed(asMeasured(ctx), func(ctx context.Context) error { return w.run(ctx, row) })
}

// count runs transactions one by one, each until its phase two is over, and counts their requests. Before them is one that does not
// count: with the first blind transaction of a client no timestamp is at hand.
func (f *latencyField) count(ctx context.Context, w *latencyWork) error {
	w.requests = map[string][]float64{}
	for i := range 1 + countedTransactions {
		before, waited := f.sent.now().requests, f.oracle.waited.Load()
		if _, err := f.perform(ctx, w); err != nil {
			return err
		}
		if err := f.client.Flush(ctx); err != nil {
			return fmt.Errorf("phase two: %w", err)
		}
		sent := minus(f.sent.now().requests, before)
		sent["storage"] = sent["ReadRows"] + sent["CheckAndMutateRow"] + sent["MutateRows"]
		sent["Oracle"] = f.oracle.waited.Load() - waited // only those for which the transaction waited
		for _, kind := range []string{"ReadRows", "CheckAndMutateRow", "MutateRows", "storage", "Oracle"} {
			if i > 0 {
				w.requests[kind] = append(w.requests[kind], float64(sent[kind]))
			}
		}
	}
	return nil
}

// time measures one repetition: transactions and raw requests in turns, each of both kinds of these as often as the other.
func (f *latencyField) time(ctx context.Context, iterations int, w *latencyWork) error {
	const rawEach = 3 // raw requests of each kind in a turn
	var ours, reads, mutates time.Duration
	ahead, n := f.oracle.ahead.Load(), 0
	for i := 0; i < iterations; {
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
		for end := min(i+latencyTurn, iterations); i < end; i++ {
			waited := f.oracle.waited.Load()
			d, err := f.perform(ctx, w)
			if err != nil {
				return err
			}
			if ours += d; f.oracle.waited.Load()-waited == 1 {
				w.atHand++
			}
		}
		if err := f.client.Flush(ctx); err != nil { // the raw requests are not to meet it
			return fmt.Errorf("phase two: %w", err)
		}
	}
	mean, r, m := milliseconds(ours)/float64(iterations), milliseconds(reads)/float64(n), milliseconds(mutates)/float64(n)
	w.ahead += f.oracle.ahead.Load() - ahead
	w.means, w.multiples = append(w.means, mean), append(w.multiples, mean/((r+m)/2))
	f.reads, f.mutates = append(f.reads, r), append(f.mutates, m)
	return nil
}

func timed(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	begun := time.Now()
	err := f(ctx)
	return time.Since(begun), err
}
