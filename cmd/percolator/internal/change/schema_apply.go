package change

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/keep"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

type applyFlags struct {
	cli.QueryFlags
	consent                  cli.Consent
	protect                  cli.Protection
	backfill, drop, noSample bool

	dropped bool // something, by this call
}

func NewSchemaApply() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use: "apply FILE",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(f.Check(), f.protect.Check(), cli.AboveZero("timeout", f.Oracle.Timeout)); err != nil {
				return err
			}
			if f.backfill && f.Oracle.Targets == "" {
				return cli.Usagef("--backfill needs --tso or %s", cli.OracleEnv)
			}
			if f.drop && f.Oracle.Targets == "" {
				return cli.Usagef("--drop needs --tso or %s", cli.OracleEnv)
			}
			s, err := cli.ReadSchema(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.Oracle.Timeout)
			defer cancel()
			return f.apply(ctx, cmd, s)
		},
	}
	f.Add(cmd, cli.DataTimeout)
	f.consent.Add(cmd)
	f.protect.Add(cmd)
	cmd.Flags().BoolVar(&f.drop, "drop", false, "drop the tables, indexes and columns that the file lacks, with all their data")
	cmd.Flags().BoolVar(&f.backfill, "backfill", false, "fill the indexes, and build the journal, that need it")
	cmd.Flags().BoolVar(&f.noSample, "no-sample", false, "do not check that values are of the types that their columns get")
	return cmd
}

func (f *applyFlags) apply(ctx context.Context, cmd *cobra.Command, s *percolator.Schema) error {
	plan, err := f.PlanSchema(ctx, s)
	if err != nil {
		return err
	}
	what := cmd.OutOrStdout()
	if f.Output.IsJSON() { // that is one document, at the end
		what = cmd.ErrOrStderr()
	}
	if f.drop {
		if plan, err = f.dropFirst(ctx, cmd, s, plan, what); err != nil {
			return err
		}
	}
	printPlan(what, plan)
	refused := plan.Refused()
	var samples []SampleJSON
	if refused == nil && !f.noSample {
		samples, refused = SampleValues(ctx, what, f.InstanceName, plan, s, cli.BigtableOptions(ctx)...)
	}
	apply := len(plan.Changes) > 0 && !f.consent.DryRun && refused == nil
	if apply {
		if err := f.consent.Ask(ctx, cmd, "Change the schema of %s/%s?", f.Project, f.Instance); err != nil {
			return err
		}
		in := admin.Instance{Project: f.Project, ID: f.Instance, AppProfile: f.AppProfile, Options: cli.BigtableOptions(ctx), Protection: f.protect.Tables()}
		if err := in.ApplySchema(ctx, s); err != nil {
			return err
		}
	}
	stored := plan.Stored
	if apply {
		if stored, err = f.ReadSchema(ctx); err != nil {
			return err
		}
	}
	out := newPlanJSON(plan)
	out.Version, out.Applied, out.Samples, out.Refused = stored.Version, apply, samples, refused != nil
	if err := f.Output.Emit(cmd.OutOrStdout(), out, func(w io.Writer) {
		if refused == nil { // otherwise the error says so
			f.ending(w, plan, stored, apply)
		}
	}); err != nil {
		return err
	}
	if refused != nil || f.consent.DryRun || !f.backfill {
		return refused
	}
	return f.backfillAll(cmd, stored)
}

// ending says what was done and what has to follow.
func (f *applyFlags) ending(w io.Writer, plan model.SchemaPlan, stored model.StoredSchema, applied bool) {
	if len(stored.Dropping) > 0 && !f.drop {
		_, _ = fmt.Fprintf(w, "a drop is unfinished: %s; schema apply --drop goes on with it\n", strings.Join(stored.Dropping, ", "))
	}
	switch {
	case len(plan.Changes) == 0 && f.dropped:
		_, _ = fmt.Fprintf(w, "the schema has version %d\n", stored.Version)
		return
	case len(plan.Changes) == 0 && !(f.drop && f.consent.DryRun):
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
			what = fmt.Sprintf("observers of %s see older cells after, for each of them: %s", cli.Shown(ch.Name), step)
		}
		_, _ = fmt.Fprintln(w, what)
	}
}

// backfillAll finishes every index, and the journal, that is being built, also by an earlier call.
func (f *applyFlags) backfillAll(cmd *cobra.Command, stored model.StoredSchema) error {
	return f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
		if !stored.Schema.DisableJournal && stored.Journal.Building != "" {
			done, err := keep.Sweep(ctx, cmd, c, 0)
			if err != nil {
				return err
			}
			if !f.Output.IsJSON() {
				keep.NewSweepJSON(done).Print(cmd.OutOrStdout())
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
				if !f.Output.IsJSON() {
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "index %s of %s: %s\n", ix.Name, t.Name, report)
				}
			}
		}
		return nil
	})
}
