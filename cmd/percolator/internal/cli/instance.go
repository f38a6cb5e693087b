package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// InstanceName names a Bigtable instance.
type InstanceName struct{ Project, Instance, AppProfile string }

// Add adds the flags.
func (n *InstanceName) Add(flags *pflag.FlagSet) {
	flags.StringVar(&n.Project, "project", "", "project of the Bigtable instance [$PERCOLATOR_PROJECT]")
	flags.StringVar(&n.Instance, "instance", "", "Bigtable instance [$PERCOLATOR_INSTANCE]")
	flags.StringVar(&n.AppProfile, "app-profile", "", "Bigtable application profile: single-cluster routing, transactional writes [$PERCOLATOR_APP_PROFILE]")
	markConnection(flags, "project", "instance", "app-profile")
}

// Check refuses an instance that is not named.
func (n InstanceName) Check() error {
	if n.Project == "" || n.Instance == "" {
		return Usagef("--project and --instance, or PERCOLATOR_PROJECT and PERCOLATOR_INSTANCE, are needed")
	}
	return nil
}

// ReadSchema reads the stored schema.
func (n InstanceName) ReadSchema(ctx context.Context) (model.StoredSchema, error) {
	return admin.Instance{Project: n.Project, ID: n.Instance, AppProfile: n.AppProfile, Options: BigtableOptions(ctx)}.ReadSchema(ctx)
}

// PlanSchema compares the stored schema with s.
func (n InstanceName) PlanSchema(ctx context.Context, s *percolator.Schema) (model.SchemaPlan, error) {
	return admin.Instance{Project: n.Project, ID: n.Instance, AppProfile: n.AppProfile, Options: BigtableOptions(ctx)}.PlanSchema(ctx, s)
}

// DataFlags name a Bigtable instance with tables of transactions, and its oracle.
type DataFlags struct {
	InstanceName
	Background string // app profile of background work
	Oracle     OracleFlags
}

// Add adds the flags; timeout is how long the whole command may take by default.
func (f *DataFlags) Add(cmd *cobra.Command, timeout time.Duration) {
	f.InstanceName.Add(cmd.Flags())
	cmd.Flags().StringVar(&f.Background, "background-app-profile", "", "application profile of low priority for passes over tables, in the same cluster (default that of --app-profile) [$PERCOLATOR_BACKGROUND_APP_PROFILE]")
	markConnection(cmd.Flags(), "background-app-profile")
	f.Oracle.Add(cmd, timeout)
	// The flag limits the whole command, so the environment's limit of a request does not apply.
	cmd.Flags().Lookup("timeout").Usage = "how long the command may take"
}

// How long a command may take, unless --timeout says otherwise.
const (
	CellTimeout = 30 * time.Second // one that deals with a few cells
	DataTimeout = 5 * time.Minute  // one that goes through tables
	WalkTimeout = 24 * time.Hour   // one that loses nothing of what it has done when it ends
)

// QueryFlags are those of a command that prints what it has found or done.
type QueryFlags struct {
	DataFlags
	Output Output
}

// Add adds the flags, as DataFlags.Add.
func (f *QueryFlags) Add(cmd *cobra.Command, timeout time.Duration) {
	f.DataFlags.Add(cmd, timeout)
	f.Output.Add(cmd)
}

// action is what a command does with a client. Arguments are names, without the quotes in which
// they may have been given.
type action func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error

// Run is the RunE of a command that does something with a client.
func (f *DataFlags) Run(do action, configure ...func(*percolator.Config)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		named, err := Names(args)
		if err != nil {
			return err
		}
		return f.With(cmd, func(ctx context.Context, c *percolator.Client) error { return do(ctx, cmd, c, named) }, configure...)
	}
}

// OracleTimeout is how long one request to the oracle may take.
const OracleTimeout = 10 * time.Second

// With opens a client and calls do with it, for as long as --timeout allows. What differs from the
// usual configuration, configure says.
func (f *DataFlags) With(cmd *cobra.Command, do func(ctx context.Context, c *percolator.Client) error, configure ...func(*percolator.Config)) (err error) {
	if err := f.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.Oracle.Timeout)
	defer cancel()
	telemetry, stop, err := StartTelemetry(context.WithoutCancel(ctx), "percolator", slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
	if err != nil {
		return err
	}
	defer stop()
	c, end, err := f.Open(ctx, cmd, telemetry, configure...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return do(ctx, c)
}

// Open opens a client and its connection to the oracle.
func (f *DataFlags) Open(
	ctx context.Context, cmd *cobra.Command, telemetry *exporters.Exporters, configure ...func(*percolator.Config),
) (c *percolator.Client, end func() error, err error) {
	requests := f.Oracle
	requests.Timeout = min(requests.Timeout, OracleTimeout)
	oracle, err := requests.Dial(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	cfg := percolator.Config{
		Project: f.Project, Instance: f.Instance, AppProfile: f.AppProfile, BackgroundAppProfile: f.Background, Oracle: oracle,
		MeterProvider: telemetry.MeterProvider(), TracerProvider: telemetry.TracerProvider(),
	}
	for _, with := range configure {
		with(&cfg)
	}
	c, err = percolator.NewClient(ctx, cfg, BigtableOptions(ctx)...)
	if errors.Is(err, percolator.ErrSchemaMismatch) {
		err = Advise(err)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening Bigtable instance %s/%s: %w", f.Project, f.Instance, err), oracle.Close())
	}
	return c, func() error {
		err := c.Close()
		_ = oracle.Close() // nothing is on the way any more
		return err
	}, nil
}

// Inside is what a program that has an emulator and an oracle inside says of them to commands.
type Inside struct {
	Bigtable  []option.ClientOption                       // to reach Bigtable
	Oracle    []tso.DialOption                            // to reach the oracle
	Instances []option.ClientOption                       // to reach the administration of instances; nil: there is none
	Become    func(identity string) []option.ClientOption // to call as another identity; nil: there are none
}

type insideKey struct{}

// Context is ctx for commands that run inside such a program.
func (i Inside) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, insideKey{}, i)
}

func insideOf(ctx context.Context) Inside {
	i, _ := ctx.Value(insideKey{}).(Inside)
	return i
}

// BigtableOptions are the options for every client of Bigtable and of its administration that a
// command opens.
func BigtableOptions(ctx context.Context) []option.ClientOption {
	return slices.Clone(insideOf(ctx).Bigtable)
}

// InstanceAdminOptions tells how instances are administered; ok: they are, which no emulator knows
// anything of.
func InstanceAdminOptions(ctx context.Context) (opts []option.ClientOption, ok bool) {
	if opts := insideOf(ctx).Instances; opts != nil {
		return opts, true
	}
	return nil, len(BigtableOptions(ctx)) == 0 && os.Getenv("BIGTABLE_EMULATOR_HOST") == ""
}

// IdentityOptions are those by which a command calls as another identity of an emulator; ok: the
// emulator knows identities.
func IdentityOptions(ctx context.Context, identity string) (opts []option.ClientOption, ok bool) {
	become := insideOf(ctx).Become
	if become == nil {
		return nil, false
	}
	return become(identity), true
}
