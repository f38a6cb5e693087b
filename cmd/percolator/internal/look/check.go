// Package look has the commands that look at an instance and change nothing of it, but for locks
// that anyone who meets them resolves.
package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/probe"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// checkJSON is what "check" prints for programs.
type checkJSON struct {
	Worst  health.Level `json:"worst"`
	Checks []checkedIt  `json:"checks"`
	Live   *liveJSON    `json:"live,omitempty"` // of "check --live"
}

func (out *checkJSON) add(name string, found []health.Finding, sent *probe.Cost) {
	c := checkedIt{Name: name, Level: health.OK, Findings: found, Sent: sent}
	for _, f := range found {
		c.Level = health.Worst(c.Level, f.Level)
	}
	out.Worst, out.Checks = health.Worst(out.Worst, c.Level), append(out.Checks, c)
}

// checkedIt is the result of one check.
type checkedIt struct {
	Name     string           `json:"name"`
	Level    health.Level     `json:"level"` // the worst of its findings
	Findings []health.Finding `json:"findings"`

	Sent *probe.Cost `json:"sent,omitempty"` // by a line of "check --live"
}

// check is one of those that "check" runs.
type check struct {
	name, about string
	connected   bool // it needs a client
	run         func(ctx context.Context, x *checker) []health.Finding
}

// checks are all, in the order in which they run.
func checks() []check {
	return []check{
		{"connection", "the instance and the oracle answer", false, checkConnection},
		{"schema", "a schema is stored, and is that of --schema", false, checkSchema},
		{"families", "the tables of the schema exist, with their column families", false, checkFamilies},
		{"gc-policies", "Bigtable collects nothing by itself", false, checkGCPolicies},
		{"app-profile", "single-cluster routing, transactional writes", false, checkAppProfile},
		{"oracle", "timestamps increase, above all earlier ones and close to the clock", true, checkOracle},
		{"locks", "no lock stands for much longer than its TTL, none is undecodable", true, checkLocks},
		{"journal", "its streams can be read, and those of dead clients are worked off", true, checkJournal},
		{"indexes", "no index is unfinished", false, checkIndexes},
		{"collection", "collection keeps up with the retention", true, checkCollection},
		{"workers", "workers agree about their version and observers", true, checkWorkers},
		{"observers", "each observed or weak column has a worker, none is late, no cell is parked", true, checkObservers},
		{"dead-letters", "export queues have no dead letters", true, checkLetters},
	}
}

func checkNames() []string {
	return ordered.Map(checks(), func(c check) string { return c.name })
}

// checkFlags are what "check" is told.
type checkFlags struct {
	cli.QueryFlags
	keep       cli.Retention
	only, skip []string
	strict     bool
	scan       bool
	schema     string // file
	stranded   int    // TTLs
	live       liveFlags
}

func NewCheck() *cobra.Command {
	var f checkFlags

	cmd := &cobra.Command{
		Use: "check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			known := checkNames()
			if f.live.on {
				known = liveNames()
			}
			chosen, err := f.choose(known)
			if err := cmp.Or(f.live.check(cmd), err); err != nil {
				return err
			}
			if f.live.on {
				return f.runLive(cmd, chosen)
			}
			return f.run(cmd, chosen)
		},
	}
	f.Add(cmd, cli.DataTimeout)
	f.keep.Add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "only these checks")
	flags.StringSliceVar(&f.skip, "skip", nil, "all but these checks")
	flags.BoolVar(&f.strict, "strict", false, "warnings count as failures")
	flags.StringVar(&f.schema, "schema", "", "file with the expected schema")
	flags.IntVar(&f.stranded, "stranded-ttls", health.StrandedTTLs, "how many times its TTL a lock may stand before it counts as stranded")
	flags.BoolVar(&f.scan, "scan", false, "look for locks in whole tables, not only in the rows that the journal names")
	f.live.add(cmd)
	for _, name := range []string{"only", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(slices.Concat(checkNames(), liveNames()), cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// choose returns those of the known checks that are to be run.
func (f *checkFlags) choose(known []string) (chosen []string, err error) {
	if err := f.keep.Check(); err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(f.only, f.skip) {
		if !slices.Contains(known, name) {
			return nil, cli.Usagef("there is no check %q%s", name, cmp.Or(text.DidYouMean(name, known...), "; the checks are "+strings.Join(known, ", ")))
		}
	}
	if err := cli.AboveZero("stranded-ttls", f.stranded); err != nil {
		return nil, err
	}
	for _, name := range known {
		if (len(f.only) == 0 || slices.Contains(f.only, name)) && !slices.Contains(f.skip, name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) == 0 {
		return nil, cli.Usagef("no check is left")
	}
	return chosen, nil
}

// run runs checks, those for which the client is needed too if there is none: they say so.
func (f *checkFlags) run(cmd *cobra.Command, chosen []string) error {
	if len(cli.BigtableOptions(cmd.Context())) == 0 {
		if err := emulatorhost.Await(cmd.Context(), emulatorhost.Bigtable); err != nil {
			return err // there is nothing to check
		}
	}
	x := &checker{flags: f, now: time.Now}
	if f.schema != "" {
		var err error
		if x.wanted, err = cli.ReadSchema(cmd.Context(), f.schema, nil); err != nil {
			return err
		}
	}
	var out checkJSON
	err := f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
		x.client = c
		out = x.run(ctx, cmd, chosen)
		return nil
	}, f.keep.Configure)
	switch {
	case x.client != nil && err != nil:
		return err
	case cli.ExitCode(err) == cli.ExitUsage && status.Code(err) != codes.NotFound: // what is not found is a finding
		return err
	case x.client == nil:
		ctx, cancel := context.WithTimeout(cmd.Context(), f.Oracle.Timeout)
		defer cancel()
		x.clientErr = err
		out = x.run(ctx, cmd, chosen)
	}
	return f.report(cmd, out)
}

// report prints what was found. The error is the exit status.
func (f *checkFlags) report(cmd *cobra.Command, out checkJSON) error {
	if err := f.Output.Emit(cmd.OutOrStdout(), out, out.print); err != nil {
		return err
	}
	unable := slices.ContainsFunc(out.Checks, func(c checkedIt) bool {
		return slices.ContainsFunc(c.Findings, func(f health.Finding) bool { return f.Unable })
	})
	switch {
	case out.Worst == health.Failed:
		return cli.Findings("a check has failed")
	case unable:
		return cli.Findings("a check could not be carried out")
	case f.strict && out.Worst == health.Warning:
		return cli.Findings("a check warns")
	}
	return nil
}

func (x *checker) run(ctx context.Context, cmd *cobra.Command, chosen []string) checkJSON {
	x.storedSchema = sync.OnceValues(func() (model.StoredSchema, error) { return x.askSchema(ctx) })
	x.tables = sync.OnceValues(func() ([]checkedTable, error) { return x.askTables(ctx) })
	x.running = sync.OnceValues(func() (running, error) { return askRunning(ctx, x.client) })
	say, end := cli.StatusLine(cmd)
	defer end()
	out := checkJSON{Worst: health.OK, Checks: []checkedIt{}}
	for _, c := range checks() {
		if !slices.Contains(chosen, c.name) {
			continue
		}
		say(c.name)
		found := health.Cannot(`it needs a connection, see the check "connection"`)
		if !c.connected || x.client != nil {
			found = c.run(ctx, x)
		}
		out.add(c.name, found, nil)
	}
	return out
}

func (out checkJSON) print(w io.Writer) {
	g := cli.Grid{Head: []string{"CHECK", "LEVEL", "SAW"}}
	for _, c := range out.Checks {
		name := c.Name
		for _, f := range c.Findings {
			note := cli.Line{}
			if f.Remedy != "" {
				note = cli.Styled("→ "+f.Remedy, cli.Bold)
			}
			g.Add(note, cli.Lines(name), []cli.Line{cli.Styled(string(f.Level), levelStyles[f.Level])}, cli.Lines(cli.OneLine(f.Saw)))
			name = ""
		}
	}
	g.Write(w, cli.PainterFor(w))
}

var levelStyles = map[health.Level]cli.Style{health.OK: cli.Green, health.NotChecked: cli.Dim, health.Warning: cli.Yellow, health.Failed: cli.Red}

// CheckList has a line for each check.
func CheckList() string {
	return strings.Join(ordered.Map(checks(), func(c check) string { return fmt.Sprintf("  %-12s  %s", c.name, c.about) }), "\n")
}

// streamsChecked is how many streams of the journal are looked at.
const streamsChecked = 1000

func checkJournal(ctx context.Context, x *checker) []health.Finding {
	if x.client.Schema().DisableJournal {
		return health.Fine("the schema does without one")
	}
	list, more, err := admin.New(x.client).JournalStreams(ctx, streamsChecked)
	if err != nil {
		return cannot(err)
	}
	var streams []health.Stream
	for _, s := range list {
		left := health.Stream{ID: s.ID, Ended: s.SessionState == admin.SessionEnded, Corrupt: s.Corrupt}
		if s.Oldest != 0 {
			left.Age = x.now().Sub(s.Oldest.Time())
		}
		streams = append(streams, left)
	}
	out := health.Streams(streams)
	if more {
		out = append(out, health.Unchecked("the streams after the first %d", streamsChecked)...)
	}
	return health.ElseFine(out, "streams: %d, all of them readable and worked off", len(list))
}

// lettersLimit bounds the check of dead letters: those that were retried or dropped cost reads.
const lettersLimit = 10 * time.Second

func checkLetters(ctx context.Context, x *checker) []health.Finding {
	ctx, cancel := context.WithTimeout(ctx, lettersLimit)
	defer cancel()
	var counts []exportqueue.DeadLetterCount
	err := x.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) (err error) {
		counts, err = exportqueue.CountDeadLetters(ctx, s, x.client.Schema())
		return err
	})
	if err != nil {
		return cannot(err)
	}
	out := ordered.Map(counts, func(c exportqueue.DeadLetterCount) health.Finding {
		return health.Letters(c.Table, c.Queue, c.Letters, c.More, x.now().Sub(c.Oldest.Time()))
	})
	return health.ElseFine(out, "no dead letters of export queues")
}
