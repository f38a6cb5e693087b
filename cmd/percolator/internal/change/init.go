package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/oracle"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

func NewInit() *cobra.Command {
	var f oracle.StoreFlags
	var timeout time.Duration
	var schema string
	var protect cli.Protection
	cmd := &cobra.Command{
		Use: "init",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(f.Choose(cmd), protect.Check()); err != nil {
				return err
			}
			s, err := schemaToInit(cmd.Context(), f, schema)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := cli.Advise(initialize(ctx, cmd, f, protect)); err != nil || s == nil {
				return err
			}
			return initSchema(ctx, cmd, f, protect, s)
		},
	}
	f.Add(cmd)
	protect.Add(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long it may take [$PERCOLATOR_INIT_TIMEOUT]")
	cmd.Flags().StringVar(&schema, "schema", "", "also apply this schema file")
	return cmd
}

func initialize(ctx context.Context, cmd *cobra.Command, f oracle.StoreFlags, protect cli.Protection) (err error) {
	out := cmd.OutOrStdout()
	if f.Spanner != "" {
		if err := createSpanner(ctx, f.Spanner); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "database %s is ready\n", f.Spanner)
	} else {
		in := admin.Instance{Project: f.Project, ID: f.Instance, Options: cli.BigtableOptions(ctx), Protection: protect.Tables()}
		if err := in.CreateMetaTable(ctx); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "table %s of %s/%s is ready\n", tso.BigtableTable, f.Project, f.Instance)
	}
	store, closeStore, err := f.Open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }() // nothing is on the way any more
	if err := tso.Initialize(ctx, store); err != nil {
		return err
	}
	st, err := store.Load(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "oracle %q is ready, epoch %d, high-water mark %d (%s)\n",
		f.Name, st.Epoch, st.HighWater, st.HighWater.Time().Format(time.RFC3339))
	return err
}

// schemaToInit reads the schema file before anything is created; nil: there is none.
func schemaToInit(ctx context.Context, f oracle.StoreFlags, path string) (*percolator.Schema, error) {
	switch {
	case path == "":
		return nil, nil
	case f.Spanner != "":
		return nil, cli.Usagef("--schema is for a Bigtable instance: with --spanner, use percolator schema apply")
	}
	return cli.ReadSchema(ctx, path, nil)
}

func initSchema(ctx context.Context, cmd *cobra.Command, f oracle.StoreFlags, protect cli.Protection, s *percolator.Schema) error {
	apply := applyFlags{consent: cli.Consent{Yes: true}, protect: protect}
	apply.InstanceName = f.InstanceName
	return apply.apply(ctx, cmd, s)
}

// createSpanner creates the database and the oracles' tables, as far as they are
// missing.
func createSpanner(ctx context.Context, name string) (err error) {
	parts := oracle.DatabaseName.FindStringSubmatch(name)
	if parts == nil {
		return cli.Usagef("--spanner %q is not projects/P/instances/I/databases/D", name)
	}
	admin, err := database.NewDatabaseAdminClient(ctx)
	if err != nil {
		return fmt.Errorf("admin client of Spanner: %w", err)
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	created, err := createDatabase(ctx, admin, parts[1], parts[2])
	if created || err != nil {
		return err
	}
	update, err := admin.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: name, Statements: spannerstore.Statements()})
	if err == nil {
		err = update.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("creating the tables in %s: %w", name, err)
	}
	return nil
}

// createDatabase reports whether it has created the database, with its tables.
func createDatabase(ctx context.Context, admin *database.DatabaseAdminClient, instance, id string) (created bool, err error) {
	_, err = admin.GetDatabase(ctx, &databasepb.GetDatabaseRequest{Name: instance + "/databases/" + id})
	if err == nil {
		return false, nil
	}
	if status.Code(err) != codes.NotFound {
		return false, fmt.Errorf("looking for database %s in %s: %w", id, instance, err)
	}
	creation, err := admin.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: instance, CreateStatement: "CREATE DATABASE `" + id + "`", ExtraStatements: spannerstore.Statements(),
	})
	if err == nil {
		_, err = creation.Wait(ctx)
	}
	if status.Code(err) == codes.AlreadyExists { // another process was faster; its tables follow
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating database %s in %s: %w", id, instance, err)
	}
	return true, nil
}
