package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// A load of blind transactions, whose start timestamps were requested before an earlier item gave a
// unique value up, passes over no item that takes this value.
func TestBlindLoadTakesUniqueValuesThatEarlierItemsGiveUp(t *testing.T) {
	t.Parallel()
	ctx, c := fixture.Context(t), fixture.NewEnv(t).Client
	const values = 10
	var items []string
	for v := range values {
		for _, step := range []string{"take", "pause", "give up", "take again"} {
			items = append(items, fmt.Sprint(step, " ", v))
		}
	}
	write := func(_ context.Context, tx *percolator.Txn, item string) error {
		for v := range values {
			first, second, value := fmt.Sprint("first", v), fmt.Sprint("second", v), fmt.Sprint("value", v)
			switch item {
			case fmt.Sprint("take ", v):
				return fixture.Mail.Set(tx, first, value)
			case fmt.Sprint("pause ", v):
				return tx.Set(fixture.Cell(first, "c"), nil)
			case fmt.Sprint("give up ", v):
				return fixture.Mail.Delete(tx, first)
			case fmt.Sprint("take again ", v):
				return fixture.Mail.Set(tx, second, value)
			}
		}
		return errors.New("no such item")
	}
	cfg := loader.Config{Concurrency: 1, ItemsPerTransaction: 1, TxnOptions: []percolator.TxnOption{percolator.Blind()}}
	r, err := loader.Load(ctx, c, cfg, loader.Job[string]{
		Source: loader.Replay(func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, item := range items {
					if !yield(item, nil) {
						return
					}
				}
			}
		}, nil), Write: loader.Each(write),
		Failed: func(loader.Failure[string]) error { return nil },
	})
	fixture.Must(t, err)
	if len(r.Failures) > 0 || r.Items != int64(len(items)) {
		t.Errorf("%d of %d items committed; failures: %v", r.Items, len(items), r.Failures)
	}
}
