package adopt_test

import (
	"context"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
)

// While a plain Bigtable table is adopted a program writes it within the function of an Update, and
// the same cells by its transaction.
func Example_writeBoth() {
	write := func(ctx context.Context, client *percolator.Client, plain *bigtable.Table, row string, value []byte) error {
		_, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			mutation := bigtable.NewMutation() // made anew for each attempt: the last one has to be the newest
			mutation.Set("stats", "connected_cell", bigtable.ServerTime, value)
			if err := plain.Apply(ctx, row, mutation); err != nil {
				return err
			}
			return tx.Set(percolator.Cell{Table: "phones", Row: row, Column: "connected_cell"}, value)
		})
		return err
	}
	_ = write
}
