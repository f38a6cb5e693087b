package oracle

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

// DatabaseName takes the full name of a database apart.
var DatabaseName = regexp.MustCompile(`^(projects/[^/]+/instances/[^/]+)/databases/([a-z][a-z0-9_-]*[a-z0-9])$`)

// StoreFlags name the store of an oracle's record.
type StoreFlags struct {
	cli.InstanceName
	Spanner string
	Name    string
}

func (f *StoreFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.InstanceName.Add(flags)
	flags.StringVar(&f.Spanner, "spanner", "", "Spanner database, projects/P/instances/I/databases/D, instead of Bigtable [$PERCOLATOR_SPANNER]")
	flags.StringVar(&f.Name, "name", "default", "name of the oracle [$PERCOLATOR_TSO_NAME]")
}

// Choose decides between the two kinds of store. Typed flags win over the environment.
func (f *StoreFlags) Choose(cmd *cobra.Command) error {
	typed := cmd.Flags().Changed
	bigtableTyped := typed("project") || typed("instance") || typed("app-profile")
	switch {
	case typed("spanner") && bigtableTyped:
		return cli.Usagef("--spanner and --project, --instance, --app-profile exclude each other")
	case typed("spanner") && f.Spanner != "":
		f.Project, f.Instance, f.AppProfile = "", "", ""
	case bigtableTyped:
		f.Spanner = ""
	}
	switch {
	case f.Spanner != "" && (f.Project != "" || f.Instance != ""):
		return cli.Usagef("the environment names both a Spanner database and a Bigtable instance: give --spanner, or --project and --instance")
	case f.Spanner != "" && !DatabaseName.MatchString(f.Spanner):
		return cli.Usagef("--spanner %q is not projects/P/instances/I/databases/D", f.Spanner)
	case f.Spanner == "" && (f.Project == "" || f.Instance == ""):
		return cli.Usagef("--project and --instance (PERCOLATOR_PROJECT and PERCOLATOR_INSTANCE), or --spanner, are needed")
	}
	return nil
}

// Open opens the store of the oracle's record.
func (f *StoreFlags) Open(ctx context.Context, logger *slog.Logger) (store tso.Store, closeStore func() error, err error) {
	if f.Spanner != "" {
		if err := emulatorhost.Await(ctx, emulatorhost.Spanner); err != nil {
			return nil, nil, err
		}
		db, err := spanner.NewClient(ctx, f.Spanner)
		if err != nil {
			return nil, nil, fmt.Errorf("opening %s: %w", f.Spanner, err)
		}
		logger.Info("the oracle's record is kept in Spanner", "database", f.Spanner)
		return spannerstore.New(db, f.Name), func() error { db.Close(); return nil }, nil
	}
	if len(cli.BigtableOptions(ctx)) == 0 {
		if err := emulatorhost.Await(ctx, emulatorhost.Bigtable); err != nil {
			return nil, nil, err
		}
	}
	client, err := bigtable.NewClientWithConfig(ctx, f.Project, f.Instance, bigtable.ClientConfig{
		AppProfile: f.AppProfile, MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, cli.BigtableOptions(ctx)...)
	if err != nil {
		return nil, nil, fmt.Errorf("opening Bigtable instance %s/%s: %w", f.Project, f.Instance, err)
	}
	logger.Info("the oracle's record is kept in Bigtable",
		"project", f.Project, "instance", f.Instance, "table", tso.BigtableTable)
	return tso.NewBigtableStore(client.Open(tso.BigtableTable), f.Name), client.Close, nil
}

// noData is the value of --data that says that nothing is to be looked at.
const noData = "none"

var instanceResource = regexp.MustCompile(`^projects/([^/]+)/instances/([^/]+)$`)

// served returns the function by which a server learns what was handed out in any case:
// from the Bigtable instance whose transactions use the oracle, data, or otherwise from
// the one that holds the record. nil: there is none.
func (f *StoreFlags) served(data string, logger *slog.Logger) (func(context.Context) (tso.Timestamp, error), error) {
	project, instance, profile := f.Project, f.Instance, f.AppProfile
	switch parts := instanceResource.FindStringSubmatch(data); {
	case data == noData, data == "" && instance == "":
		return nil, nil
	case parts != nil:
		if project != parts[1] || instance != parts[2] {
			project, instance, profile = parts[1], parts[2], ""
		}
	case data != "":
		return nil, cli.Usagef("--data %q is neither projects/P/instances/I nor %q", data, noData)
	}
	return func(ctx context.Context) (tso.Timestamp, error) {
		ts, err := admin.Instance{Project: project, ID: instance, AppProfile: profile, Options: cli.BigtableOptions(ctx)}.ServedTimestamp(ctx)
		if err == nil {
			logger.Info("the record is compared with timestamps that transactions have used", "project", project, "instance", instance, "served", int64(ts))
		}
		return ts, err
	}, nil
}
