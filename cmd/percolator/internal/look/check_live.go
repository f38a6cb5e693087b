package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/spf13/cobra"
	"google.golang.org/api/impersonate"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/probe"
)

// liveFlags are those of "check --live".
type liveFlags struct {
	on, dryRun  bool
	identities  []string
	maxRequests int
	maxTime     time.Duration
	probe.Config
}

// maxLiveTime keeps a run shorter than the age at which its tables count as left over.
const maxLiveTime = probe.LeftoverAge / 2

func (f *liveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "live", false, "test the behaviour on which transactions rely, in tables that the command removes; all further flags need it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only announce its greatest cost")
	flags.StringArrayVar(&f.identities, "identity", nil, "ROLE[:TABLE,…]=SERVICE_ACCOUNT: test its rights, by impersonation; may be repeated")
	flags.StringVar(&f.SeveralClusters, "several-clusters", "", "app profile that routes to several clusters (default one that the instance has)")
	flags.BoolVar(&f.LargeValues, "large-values", false, "also write values at Bigtable's limit, 200 MiB in all")
	flags.Int64Var(&f.ProgressBytes, "progress-bytes", 0, "how many bytes to write for the line progress")
	flags.Int64Var(&f.StorageBytes, "storage-bytes", 0, "how many bytes to write and delete for the line storage, in a table that stays for days; at most 10 GiB")
	flags.DurationVar(&f.ProgressWithin, "progress-within", time.Second, "the deadline that cuts a read of them")
	flags.DurationVar(&f.MaxLatency, "max-latency", time.Second, "most that the p99 of an operation may be")
	flags.IntVar(&f.maxRequests, "max-requests", 20_000, "refuse to begin if more may be needed")
	flags.DurationVar(&f.maxTime, "max-time", probe.DefaultMaxTime, "how long it may take, in place of --timeout; at most "+maxLiveTime.String())
}

// check refuses flags that need --live, and values out of bounds.
func (f *liveFlags) check(cmd *cobra.Command) error {
	if !f.on {
		for _, name := range []string{"dry-run", "identity", "several-clusters", "large-values", "progress-bytes", "storage-bytes", "progress-within", "max-latency", "max-requests", "max-time"} {
			if cmd.Flags().Changed(name) {
				return cli.Usagef("--%s needs --live", name)
			}
		}
		return nil
	}
	if f.maxTime > maxLiveTime {
		return cli.Usagef("--max-time %v is more than %v", f.maxTime, maxLiveTime)
	}
	return cmp.Or(cli.AboveZero("max-requests", f.maxRequests), cli.AboveZero("max-time", f.maxTime), cli.AboveZero("max-latency", f.MaxLatency),
		cli.AboveZero("progress-within", f.ProgressWithin), cli.NotNegative("progress-bytes", int(f.ProgressBytes)), cli.NotNegative("storage-bytes", int(f.StorageBytes)))
}

func liveNames() []string {
	return ordered.Map(probe.Lines(), func(l probe.Line) string { return l.Name })
}

// liveJSON is what a run may cost, and has cost.
type liveJSON struct {
	Most       probe.Cost            `json:"most"`
	Timestamps int                   `json:"timestamps,omitempty"` // at most
	MaxTime    string                `json:"maxTime"`
	Lines      map[string]probe.Cost `json:"lines,omitempty"` // with --dry-run
	Sent       *probe.Cost           `json:"sent,omitempty"`
}

// runLive is "check --live".
func (f *checkFlags) runLive(cmd *cobra.Command, only []string) error {
	if err := f.InstanceName.Check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	c := f.live.Config
	c.Project, c.Instance, c.AppProfile, c.Options = f.Project, f.Instance, f.AppProfile, cli.BigtableOptions(ctx)
	c.Lines, c.MaxTime = only, f.live.maxTime
	if opts, ok := cli.InstanceAdminOptions(ctx); ok {
		c.InstanceOptions = append([]option.ClientOption{}, opts...)
	}
	for _, text := range f.live.identities {
		i, err := identityOf(ctx, text)
		if err != nil {
			return err
		}
		c.Identities = append(c.Identities, i)
	}
	most := probe.Announce(c)
	about := liveJSON{Most: most.Total, Timestamps: most.Timestamps, MaxTime: most.MaxTime.String()}
	if f.live.dryRun {
		about.Lines = map[string]probe.Cost{}
		for _, l := range most.Lines {
			about.Lines[l.Name] = l.Sent
		}
		return f.Output.Emit(cmd.OutOrStdout(), about, func(w io.Writer) { printAnnouncement(w, most) })
	}
	if most.Total.Requests > f.live.maxRequests {
		return cli.Usagef("it may need %d requests, and --max-requests is %d: choose lines by --only", most.Total.Requests, f.live.maxRequests)
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "percolator:", costText(most))
	if slices.Contains(only, "oracle") && f.Oracle.Targets != "" {
		requests := f.Oracle
		requests.Timeout = min(requests.Timeout, cli.OracleTimeout)
		oracle, err := requests.Dial(ctx, cmd)
		if c.OracleErr = err; err == nil {
			defer func() { _ = oracle.Close() }()
			c.Oracle = oracle
		}
	}
	say, end := cli.StatusLine(cmd)
	defer end()
	c.Say = say
	report, err := probe.Run(ctx, c)
	if err != nil {
		return err
	}
	about.Sent = &report.Total
	return f.report(cmd, liveResults(report, about))
}

func liveResults(report probe.Report, about liveJSON) checkJSON {
	out := checkJSON{Worst: health.OK, Live: &about}
	for _, r := range report.Results {
		out.add(r.Name, r.Findings, &r.Sent)
	}
	return out
}

func printAnnouncement(w io.Writer, a probe.Announcement) {
	t := cli.NewTable(w, "LINE", "REQUESTS", "BYTES")
	for _, l := range a.Lines {
		t.Row(l.Name, l.Sent.Requests, cli.Bytes(l.Sent.Bytes))
	}
	t.Flush()
	_, _ = fmt.Fprintf(w, "\n%s\n", costText(a))
}

func costText(a probe.Announcement) string {
	text := fmt.Sprintf("it sends at most %d requests with %s to Bigtable, and takes at most %v; tables that it creates and removes: %d",
		a.Total.Requests, strings.TrimSpace(cli.Bytes(a.Total.Bytes)), a.MaxTime, a.Total.Tables)
	if a.Timestamps > 0 {
		text += fmt.Sprintf("; timestamps that it asks the oracle for: %d", a.Timestamps)
	}
	return text
}

// identityOf is what --identity says.
func identityOf(ctx context.Context, text string) (i probe.Identity, err error) {
	role, name, ok := strings.Cut(text, "=")
	role, tables, _ := strings.Cut(role, ":")
	roles := probe.Roles()
	at := slices.IndexFunc(roles, func(r probe.Role) bool { return r.Name == role })
	if !ok || at < 0 || name == "" {
		names := ordered.Map(roles, func(r probe.Role) string { return r.Name })
		return i, cli.Usagef("--identity %q is not ROLE[:TABLE,…]=SERVICE_ACCOUNT, with a role of %s", text, strings.Join(names, ", "))
	}
	i = probe.Identity{Role: roles[at], Name: name}
	if tables != "" {
		i.Tables = strings.Split(tables, ",")
	}
	if len(i.Tables) > probe.MaxIdentityTables {
		return i, cli.Usagef("--identity %q has more than %d tables", text, probe.MaxIdentityTables)
	}
	if i.Options, ok = cli.IdentityOptions(ctx, name); ok {
		return i, nil
	}
	if _, ok := cli.InstanceAdminOptions(ctx); !ok {
		i.Err = errors.New("an emulator knows no identities")
		return i, nil
	}
	tokens, err := impersonate.CredentialsTokenSource(ctx, impersonate.CredentialsConfig{TargetPrincipal: name, Scopes: []string{bigtable.Scope, bigtable.AdminScope}})
	if err != nil {
		i.Err = err
		return i, nil
	}
	i.Options = []option.ClientOption{option.WithTokenSource(tokens)}
	return i, nil
}

// LiveList has a line for each check of a live instance.
func LiveList() string {
	return strings.Join(ordered.Map(probe.Lines(), func(l probe.Line) string { return fmt.Sprintf("  %-18s  %s", l.Name, l.About) }), "\n")
}
