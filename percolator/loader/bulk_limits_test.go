package loader_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The position of an import holds sums for each time to live and a token. At the limits of both it
// can be stored; a table beyond is refused before it is fenced.
func TestBulkOfManyTimesToLive(t *testing.T) {
	t.Parallel()
	for ttls, refused := range map[int]bool{64: false, 65: true} {
		t.Run(fmt.Sprint(ttls), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				table := percolator.Table{Name: "t"}
				one := loader.Row{Row: "r"}
				for i := range ttls {
					name := fmt.Sprintf("c%03d", i)
					table.Columns = append(table.Columns, percolator.ColumnSchema{Name: name, TTL: 10_000*time.Hour + time.Duration(i)*time.Nanosecond})
					one.Cells = append(one.Cells, model.ImportCell{Column: name, Value: []byte(name)})
				}
				table.TTL = 10_000 * time.Hour
				ctx, cancel := context.WithTimeout(context.Background(), 100*limit)
				defer cancel()
				e := &env{t, percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table}}), ctx}
				_, err := loader.Bulk(ctx, e.Client, bulkConfig(), func(_ context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
					return func(yield func(loader.Item[loader.Row], error) bool) {
						if from.Items == 0 {
							yield(loader.Item[loader.Row]{Value: one, Token: make([]byte, loader.MaxToken)}, nil)
						}
					}
				})
				if !refused {
					fixture.Must(t, err)
					return
				}
				fixture.WantErr(t, err, percolator.ErrTooLarge)
				fixture.Put(t, ctx, e.Client, "r", "c000", "v") // no fence is left
			})
		})
	}
}
