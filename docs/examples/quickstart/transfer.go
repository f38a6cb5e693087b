package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/gopercolator/percolator/percolator"
)

var balance = percolator.String("accounts", "balance")

// transfer moves 7 dollars from Bob to Joe if Bob has 10. It takes Joe's 2 for granted, to be
// short.
func transfer(ctx context.Context, out io.Writer) error {
	client, err := percolator.NewClient(ctx, percolator.Config{
		Project:  os.Getenv("PERCOLATOR_PROJECT"),
		Instance: os.Getenv("PERCOLATOR_INSTANCE"),
		Logger:   slog.Default(),
	})
	if err != nil {
		return err
	}
	defer client.Close()

	moved := false
	_, err = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		bob, err := balance.Get(ctx, tx, "Bob")
		if moved = bob == "$10"; err != nil || !moved {
			return err
		}
		return errors.Join(balance.Set(tx, "Bob", "$3"), balance.Set(tx, "Joe", "$9"))
	})
	if err == nil {
		fmt.Fprintln(out, "moved:", moved)
	}
	return err
}
