package watch_test

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/watch"
)

func ExampleChanges() {
	_ = balances
}

func balances(ctx context.Context, client *percolator.Client, position watch.Position) error {
	for batch, err := range watch.Changes(ctx, client, watch.Config{
		Columns: []watch.Column{{Table: "accounts", Name: "balance"}},
		From:    position,
	}) {
		if err != nil {
			return err
		}
		for _, change := range batch.Changes {
			fmt.Println(change.Cell.Row, change.Deleted, string(change.Value))
		}
		position = batch.Position // store it together with what was made of the changes
	}
	return nil
}
