package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/spannerstore"
)

// databaseName takes the full name of a database apart.
var databaseName = regexp.MustCompile(`^(projects/[^/]+/instances/[^/]+)/databases/([a-z][a-z0-9_-]*[a-z0-9])$`)

// createSpanner creates the database and the oracles' tables, as far as they are
// missing.
func createSpanner(ctx context.Context, name string) (err error) {
	parts := databaseName.FindStringSubmatch(name)
	if parts == nil {
		return usagef("--spanner %q is not projects/P/instances/I/databases/D", name)
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
	if status.Code(err) == codes.AlreadyExists { // somebody else was faster; its tables follow
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating database %s in %s: %w", id, instance, err)
	}
	return true, nil
}
