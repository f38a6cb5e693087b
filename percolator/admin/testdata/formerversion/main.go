// Formerversion writes to an instance until it is refused. The test of upgrades builds it together
// with a version of the module that knows no journal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

func main() {
	store, server, project, instance := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx := context.Background()
	oracle, err := tso.Dial(ctx, server)
	if err != nil {
		panic(err)
	}
	c, err := percolator.NewClient(ctx, percolator.Config{Project: project, Instance: instance, Oracle: oracle}, emulator.Connect(store)...)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	for i := 0; ; i++ {
		cell := percolator.Cell{Table: "t", Row: fmt.Sprintf("row-%06d", i), Column: "seen"}
		_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell, []byte("1")) })
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, tso.ErrUnavailable):
			i-- // a busy machine
		case err != nil:
			fmt.Println("stopped:", err)
			return
		default:
			fmt.Println("wrote", cell.Row)
		}
	}
}
