// Package fill fills tables before anything is measured.
package fill

import (
	"context"
	"errors"
	"iter"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// Items has transactions write n items, and waits for their phase two.
func Items(ctx context.Context, c *percolator.Client, n int, write func(tx *percolator.Txn, i int) error) error {
	numbers := func(context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := 0; i < n && yield(i, nil); i++ {
			}
		}
	}
	report, err := loader.Load(ctx, c, loader.Config{TxnOptions: []percolator.TxnOption{percolator.Blind()}}, loader.Job[int]{
		Source: loader.Replay(numbers, nil),
		Write:  loader.Each(func(_ context.Context, tx *percolator.Txn, i int) error { return write(tx, i) }),
	})
	if err == nil && report.Items != int64(n) {
		err = errors.New("fill: not all items were written")
	}
	return errors.Join(err, c.Flush(ctx))
}
