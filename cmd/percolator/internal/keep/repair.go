package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/cmd/percolator/internal/oracle"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// repairFlags are the flags of "repair".
type repairFlags struct {
	cli.QueryFlags
	to      string
	record  oracle.StoreFlags // of the oracle, should it have to be raised
	yes     bool
	options model.RepairOptions
}

func NewRepair() *cobra.Command {
	var f repairFlags
	cmd := &cobra.Command{
		Use: "repair",
		PreRunE: func(*cobra.Command, []string) (err error) {
			if f.to == "" || strings.HasPrefix(f.to, "now") {
				return cli.Usagef("--to is needed: the timestamp that percolator gc hold take --for-backup printed")
			}
			if f.options.To, err = oracle.ParseMark(f.to, time.Now()); err != nil {
				return err
			}
			if f.record.Spanner != "" && !oracle.DatabaseName.MatchString(f.record.Spanner) {
				return cli.Usagef("--spanner %q is not projects/P/instances/I/databases/D", f.record.Spanner)
			}
			return nil
		},
		RunE: f.Run(f.repair),
	}
	f.Add(cmd, cli.WalkTimeout)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "remove all later commits: a timestamp, or a time such as 2026-06-01T12:00:00Z")
	flags.BoolVar(&f.options.DryRun, "dry-run", false, "only count what would be done")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.options.WithoutHold, "without-hold", false, "repair although no hold stopped collection: the report lists locks whose records may be gone, and nothing below --to can be read")
	flags.BoolVar(&f.options.DespiteFindings, "despite-findings", false, "open the instance although the audit has findings")
	flags.StringVar(&f.record.Spanner, "spanner", "", "Spanner database with the oracle's record, projects/P/instances/I/databases/D; otherwise it is in the instance [$PERCOLATOR_SPANNER]")
	flags.StringVar(&f.record.Name, "name", "default", "name of the oracle [$PERCOLATOR_TSO_NAME]")
	return cmd
}

func (f *repairFlags) repair(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
	opts := f.options
	if !opts.DryRun {
		if err := cli.Ask(ctx, cmd, f.yes, "Remove for good all commits after %s in %s/%s? No client can use the instance until the repair has ended.", text.At(opts.To), f.Project, f.Instance); err != nil {
			return err
		}
	}
	wait, say, end := cli.WaitingLine(cmd, "every client knows of the repair")
	opts.Waiting = wait.Begin
	opts.Raise = f.raise
	opts.Progress = func(r model.RepairReport) { say(fmt.Sprintf("%s, %d rows", r.Phase, r.Rows)) }
	report, err := admin.New(c).Repair(ctx, opts)
	end()
	switch {
	case err == nil || errors.Is(err, admin.ErrRepairFindings):
	case report.Unfinished:
		return fmt.Errorf("the instance is not usable until the repair has ended; the same command resumes it: %w", err)
	default:
		return err
	}
	out := newRepairJSON(report, opts.DryRun)
	if err == nil && !opts.DryRun {
		out.Indexes, err = compareIndexes(ctx, c, report.Building)
	}
	if err == nil && out.wrong() {
		err = cli.Findings("the report names the faults")
	}
	return errors.Join(f.Output.Emit(cmd.OutOrStdout(), out, out.print), err)
}

// raise raises the oracle, whose leader has to begin a new window.
func (f *repairFlags) raise(ctx context.Context, above tso.Timestamp) (err error) {
	record := f.record
	if record.Spanner == "" {
		record.InstanceName = f.InstanceName
	}
	store, closeStore, err := record.Open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	return cli.Advise(tso.Raise(ctx, store, above))
}

// compareIndexes verifies the indexes that are complete. The audit, during which no client could
// read, has left them out.
func compareIndexes(ctx context.Context, c *percolator.Client, building []string) (list []look.VerifyJSON, err error) {
	for _, t := range c.Schema().Tables {
		for _, ix := range t.Indexes {
			if slices.Contains(building, t.Name+"."+ix.Name) {
				continue
			}
			r, err := admin.New(c).VerifyIndex(ctx, t.Name, ix.Name, admin.VerifyIndexOptions{})
			if err != nil {
				return list, fmt.Errorf("the repair has ended; comparing index %s of %s (percolator schema verify): %w", ix.Name, t.Name, err)
			}
			list = append(list, look.NewVerifyJSON(t.Name, ix.Name, r))
		}
	}
	return list, nil
}
