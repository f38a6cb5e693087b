package loader_test

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// Rows of any source go into an empty table, under a fence of that table alone. The same call goes
// on after a crash.
func ExampleBulk() {
	var rows loader.Source[loader.Row] // yields the same rows again when an import goes on
	importUsers := func(ctx context.Context, client *percolator.Client) error {
		report, err := loader.Bulk(ctx, client, loader.BulkConfig{Table: "users", Source: "the export of November"}, rows)
		if err != nil {
			return err
		}
		fmt.Println(report.Table.Rows, "rows are visible since", report.Since.Time())
		return nil
	}
	_ = importUsers
}
