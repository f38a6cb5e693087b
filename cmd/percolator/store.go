package main

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

// storeFlags name the store of an oracle's record.
type storeFlags struct {
	instanceName
	spanner string
	name    string
}

func (f *storeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.instanceName.add(flags)
	flags.StringVar(&f.spanner, "spanner", "", "Spanner database, projects/P/instances/I/databases/D, instead of Bigtable [$PERCOLATOR_SPANNER]")
	flags.StringVar(&f.name, "name", "default", "name of the oracle [$PERCOLATOR_TSO_NAME]")
}

// choose decides between the two kinds of store. Typed flags win over the environment.
func (f *storeFlags) choose(cmd *cobra.Command) error {
	typed := cmd.Flags().Changed
	bigtableTyped := typed("project") || typed("instance") || typed("app-profile")
	switch {
	case typed("spanner") && bigtableTyped:
		return usagef("--spanner and --project, --instance, --app-profile exclude each other")
	case typed("spanner") && f.spanner != "":
		f.project, f.instance, f.appProfile = "", "", ""
	case bigtableTyped:
		f.spanner = ""
	}
	switch {
	case f.spanner != "" && (f.project != "" || f.instance != ""):
		return usagef("the environment names both a Spanner database and a Bigtable instance: give --spanner, or --project and --instance")
	case f.spanner != "" && !databaseName.MatchString(f.spanner):
		return usagef("--spanner %q is not projects/P/instances/I/databases/D", f.spanner)
	case f.spanner == "" && (f.project == "" || f.instance == ""):
		return usagef("--project and --instance (PERCOLATOR_PROJECT and PERCOLATOR_INSTANCE), or --spanner, are needed")
	}
	return nil
}

// open opens the store of the oracle's record.
func (f *storeFlags) open(ctx context.Context, logger *slog.Logger) (store tso.Store, closeStore func() error, err error) {
	if f.spanner != "" {
		if err := emulatorhost.Await(ctx, emulatorhost.Spanner); err != nil {
			return nil, nil, err
		}
		db, err := spanner.NewClient(ctx, f.spanner)
		if err != nil {
			return nil, nil, fmt.Errorf("opening %s: %w", f.spanner, err)
		}
		logger.Info("the oracle's record is kept in Spanner", "database", f.spanner)
		return spannerstore.New(db, f.name), func() error { db.Close(); return nil }, nil
	}
	if len(bigtableOptions(ctx)) == 0 {
		if err := emulatorhost.Await(ctx, emulatorhost.Bigtable); err != nil {
			return nil, nil, err
		}
	}
	client, err := bigtable.NewClientWithConfig(ctx, f.project, f.instance, bigtable.ClientConfig{
		AppProfile: f.appProfile, MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, bigtableOptions(ctx)...)
	if err != nil {
		return nil, nil, fmt.Errorf("opening Bigtable instance %s/%s: %w", f.project, f.instance, err)
	}
	logger.Info("the oracle's record is kept in Bigtable",
		"project", f.project, "instance", f.instance, "table", tso.BigtableTable)
	return tso.NewBigtableStore(client.Open(tso.BigtableTable), f.name), client.Close, nil
}

// noData is the value of --data that says that nothing is to be looked at.
const noData = "none"

var instanceResource = regexp.MustCompile(`^projects/([^/]+)/instances/([^/]+)$`)

// served returns the function by which a server learns what was handed out in any case:
// from the Bigtable instance whose transactions use the oracle, data, or otherwise from
// the one that holds the record. nil: there is none.
func (f *storeFlags) served(data string, logger *slog.Logger) (func(context.Context) (tso.Timestamp, error), error) {
	project, instance, profile := f.project, f.instance, f.appProfile
	switch parts := instanceResource.FindStringSubmatch(data); {
	case data == noData, data == "" && instance == "":
		return nil, nil
	case parts != nil:
		if project != parts[1] || instance != parts[2] {
			project, instance, profile = parts[1], parts[2], ""
		}
	case data != "":
		return nil, usagef("--data %q is neither projects/P/instances/I nor %q", data, noData)
	}
	return func(ctx context.Context) (tso.Timestamp, error) {
		ts, err := admin.ServedTimestamp(ctx, project, instance, profile, bigtableOptions(ctx)...)
		if err == nil {
			logger.Info("the record is compared with what transactions have used", "project", project, "instance", instance, "served", int64(ts))
		}
		return ts, err
	}, nil
}
