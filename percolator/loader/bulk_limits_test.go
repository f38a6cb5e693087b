package loader_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/meta"
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

// The instance remembers imports into so many tables. An import into one more is refused before its
// table is fenced.
func TestImportsIntoManyTablesHaveALimit(t *testing.T) {
	inBubble(t, testImportsIntoManyTablesHaveALimit)
}

func testImportsIntoManyTablesHaveALimit(t *testing.T) {
	e := bulkEnv(t)
	change := func(mut *bigtable.Mutation) {
		t.Helper()
		fixture.Must(t, e.Store().Open("percolator_meta").Apply(e.ctx, "meta", mut))
	}
	full, one := bigtable.NewMutation(), bigtable.NewMutation()
	for i := range meta.MaxImports {
		full.Set("meta", fmt.Sprint("import:table", i), 1000, meta.Import{Since: 1}.Encode())
	}
	change(full)
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1))
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	e.wantRows(e.NewClient(), 0) // no fence is left
	one.DeleteCellsInColumn("meta", "import:table0")
	change(one)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1))
	fixture.Must(t, err)
}
