package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

type applyFlags struct {
	queryFlags
	yes, dryRun, backfill, drop, noSample bool

	dropped bool // something, by this call
}

func newSchemaApply() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:  "apply FILE",
		Args: schemaArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(f.check(), aboveZero("timeout", f.oracle.timeout)); err != nil {
				return err
			}
			if f.backfill && f.oracle.targets == "" {
				return usagef("--backfill needs --tso or %s", tsoAddrEnv)
			}
			if f.drop && f.oracle.targets == "" {
				return usagef("--drop needs --tso or %s", tsoAddrEnv)
			}
			s, err := readSchema(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.oracle.timeout)
			defer cancel()
			return f.apply(ctx, cmd, s)
		},
	}
	f.add(cmd, defaultDataTimeout)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&f.drop, "drop", false, "drop the tables, indexes and columns that the file lacks, with all their data")
	cmd.Flags().BoolVar(&f.backfill, "backfill", false, "fill the indexes, and build the journal, that need it")
	cmd.Flags().BoolVar(&f.noSample, "no-sample", false, "do not check that values are of the types that their columns get")
	return cmd
}

func (f *applyFlags) apply(ctx context.Context, cmd *cobra.Command, s *percolator.Schema) error {
	plan, err := f.planSchema(ctx, s)
	if err != nil {
		return err
	}
	what := cmd.OutOrStdout()
	if f.output.format == outputJSON { // that is one document, at the end
		what = cmd.ErrOrStderr()
	}
	if f.drop {
		if plan, err = f.dropFirst(ctx, cmd, s, plan, what); err != nil {
			return err
		}
	}
	printPlan(what, plan)
	refused := plan.Refused()
	var samples []sampleJSON
	if refused == nil && !f.noSample {
		samples, refused = sampleValues(ctx, what, f.instanceName, plan, s, bigtableOptions(ctx)...)
	}
	apply := len(plan.Changes) > 0 && !f.dryRun && refused == nil
	if apply {
		if err := ask(ctx, cmd, f.yes, "Change the schema of %s/%s?", f.project, f.instance); err != nil {
			return err
		}
		if err := admin.ApplySchema(ctx, f.project, f.instance, f.appProfile, s, bigtableOptions(ctx)...); err != nil {
			return err
		}
	}
	stored := plan.Stored
	if apply {
		if stored, err = f.readSchema(ctx); err != nil {
			return err
		}
	}
	out := newPlanJSON(plan)
	out.Version, out.Applied, out.Samples, out.Refused = stored.Version, apply, samples, refused != nil
	if err := f.output.emit(cmd.OutOrStdout(), out, func(w io.Writer) {
		if refused == nil { // otherwise the error says so
			f.ending(w, plan, stored, apply)
		}
	}); err != nil {
		return err
	}
	if refused != nil || f.dryRun || !f.backfill {
		return refused
	}
	return f.backfillAll(cmd, stored)
}

// ending says what was done and what has to follow.
func (f *applyFlags) ending(w io.Writer, plan admin.SchemaPlan, stored admin.StoredSchema, applied bool) {
	if len(stored.Dropping) > 0 && !f.drop {
		_, _ = fmt.Fprintf(w, "a drop is unfinished: %s; schema apply --drop goes on with it\n", strings.Join(stored.Dropping, ", "))
	}
	switch {
	case len(plan.Changes) == 0 && f.dropped:
		_, _ = fmt.Fprintf(w, "the schema has version %d\n", stored.Version)
		return
	case len(plan.Changes) == 0 && !(f.drop && f.dryRun):
		_, _ = fmt.Fprintf(w, "nothing to do, the schema has version %d\n", stored.Version)
		return
	case !applied:
		_, _ = fmt.Fprintln(w, "nothing was changed")
		return
	}
	_, _ = fmt.Fprintf(w, "the schema has version %d\n", stored.Version)
	for _, ch := range plan.Changes {
		what := ""
		switch step := nextStep(ch); {
		case step == "" || (ch.Index.Name != "" || ch.Table == "") && f.backfill:
			continue
		case ch.Table == "":
			what = "the journal is used once workers have built it, or after: " + step
		case ch.Index.Name != "":
			what = fmt.Sprintf("index %s can be read after: %s", ch.Index.Name, step)
		default:
			what = fmt.Sprintf("observers of %s see older cells after, for each of them: %s", shown(ch.Name), step)
		}
		_, _ = fmt.Fprintln(w, what)
	}
}

// backfillAll finishes every index, and the journal, that is being built, also by an earlier call.
func (f *applyFlags) backfillAll(cmd *cobra.Command, stored admin.StoredSchema) error {
	return f.with(cmd, func(ctx context.Context, c *percolator.Client) error {
		if !stored.Schema.DisableJournal && stored.Journal.Building != "" {
			done, err := sweepNow(ctx, cmd, c, 0)
			if err != nil {
				return err
			}
			if f.output.format != outputJSON {
				newSweepJSON(done).print(cmd.OutOrStdout())
			}
		}
		for _, t := range stored.Schema.Tables {
			for _, ix := range t.Indexes {
				if !stored.Indexes[t.Name+"."+ix.Name].Building {
					continue
				}
				report, err := backfillIndex(ctx, cmd, c, t.Name, ix.Name, admin.BackfillOptions{})
				if err != nil {
					return err
				}
				if f.output.format != outputJSON {
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "index %s of %s: %s\n", ix.Name, t.Name, report)
				}
			}
		}
		return nil
	})
}
