package main

import (
	"context"
	"fmt"
	"io"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
)

const (
	plainTable = "old-phones"
	family     = "stats"
)

// before makes a table as Google's client makes it, with three phones.
func before(ctx context.Context, out io.Writer, project, instance string, plain *bigtable.Table) error {
	admin, err := bigtable.NewAdminClient(ctx, project, instance)
	if err != nil {
		return err
	}
	defer admin.Close()
	conf := &bigtable.TableConf{TableID: plainTable, Families: map[string]bigtable.GCPolicy{family: bigtable.MaxVersionsPolicy(1)}}
	if err := admin.CreateTableFromConf(ctx, conf); err != nil {
		return err
	}
	builds := map[string]string{"4c410523": "PQ2A.190405", "5c10102": "PQ2A.190406", "5c10103": "PQ2A.190405"}
	for phone, build := range builds {
		if err := put(ctx, plain, phone, build); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s has %d phones\n", plainTable, len(builds))
	return nil
}

// put writes the plain table.
func put(ctx context.Context, plain *bigtable.Table, phone, build string) error {
	mutation := bigtable.NewMutation()
	mutation.Set(family, "os_build", bigtable.ServerTime, []byte(build))
	return plain.Apply(ctx, phone, mutation)
}

// install writes both tables, in the order that docs/ADOPT.md explains.
func install(ctx context.Context, client *percolator.Client, plain *bigtable.Table, phone, build string) error {
	_, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if err := put(ctx, plain, phone, build); err != nil { // as before
			return err
		}
		return osBuild.Set(tx, phone, build) // new
	})
	return err
}
