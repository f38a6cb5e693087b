package change

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/schemafile"
)

// planJSON is what "schema diff" and "schema apply" print for programs.
type planJSON struct {
	Version uint64       `json:"version"` // of the stored schema; 0: there is none
	Changes []changeJSON `json:"changes"`
	Refused bool         `json:"refused"` // some change is refused, so none would be made
	Applied bool         `json:"applied"`
	Samples []SampleJSON `json:"samples,omitempty"` // what schema apply has looked at before
}

type changeJSON struct {
	Change string `json:"change"`
	Table  string `json:"table,omitempty"`
	Name   string `json:"name,omitempty"`
	Column string `json:"column,omitempty"` // of an index
	Unique bool   `json:"unique,omitempty"`

	Type percolator.Type `json:"type,omitempty"` // of a declared column, as it is to be
	Was  percolator.Type `json:"was,omitempty"`  // the type that the column has, or had
	TTL  string          `json:"ttl,omitempty"`  // of a column or table, as it is to be

	NotifyExpired bool `json:"notifyExpired,omitempty"` // likewise

	Refused bool   `json:"refused"`
	Then    string `json:"then,omitempty"` // the command that does the same for existing rows
}

func newPlanJSON(plan model.SchemaPlan) planJSON {
	return planJSON{Version: plan.Stored.Version, Changes: ordered.Map(plan.Changes, newChangeJSON), Refused: plan.Refused() != nil}
}

func newChangeJSON(ch model.SchemaChange) changeJSON {
	return changeJSON{
		Change: string(ch.Kind), Table: ch.Table, Name: cli.ShownName(ch.Name), Column: cli.ShownName(ch.Index.Column), Unique: ch.Index.Unique,
		Type: ch.Column.Type, Was: ch.Was.Type, TTL: schemafile.Duration(ch.Column.TTL), NotifyExpired: ch.Column.NotifyExpired, Refused: ch.Err() != nil, Then: nextStep(ch),
	}
}

// nextStep is the command that has to follow a change.
func nextStep(ch model.SchemaChange) string {
	switch {
	case !ch.Backfill:
		return ""
	case ch.Index.Name != "":
		return cli.BackfillCommand(ch.Table, ch.Index.Name)
	case ch.Table == "":
		return cli.SweepCommand
	}
	return fmt.Sprintf("percolator observers backfill %s %s OBSERVER", ch.Table, cli.Shown(ch.Name))
}

// planParts divides changes: those of one queue's columns are together, all else is by itself.
func planParts(plan model.SchemaPlan) (divided [][]model.SchemaChange) {
	for _, ch := range plan.Changes {
		if last := len(divided) - 1; last >= 0 {
			before := divided[last][len(divided[last])-1]
			if isWeak := ch.Kind == model.WeakAdded || ch.Kind == model.WeakRemoved; isWeak && before.Kind == ch.Kind && before.Table == ch.Table && text.Follows(before.Name, ch.Name) {
				divided[last] = append(divided[last], ch)
				continue
			}
		}
		divided = append(divided, []model.SchemaChange{ch})
	}
	return divided
}

// changeLine is a change, or one of several columns of a queue, as a line of a diff.
func changeLine(parts ...model.SchemaChange) string {
	ch := parts[0]
	switch ch.Kind {
	case model.ColumnDeclared, model.ColumnRemoved, model.TypeChanged, model.TTLChanged:
		return declarationLine(ch)
	}
	observed, weak, index := "observed column "+cli.Shown(ch.Name), "weak column "+text.Span(cli.Shown(ch.Name), cli.Shown(parts[len(parts)-1].Name), len(parts)), indexText(ch.Index)
	of := "table " + ch.Table + ": "
	line, ok := map[model.SchemaChangeKind]string{
		model.TableAdded:           "+ table " + ch.Table,
		model.TableRemoved:         "- table " + ch.Table + "  (refused)",
		model.ObservedAdded:        "+ " + of + observed,
		model.ObservedRemoved:      "- " + of + observed + "  (refused)",
		model.WeakAdded:            "+ " + of + weak,
		model.WeakRemoved:          "- " + of + weak + "  (refused)",
		model.IndexAdded:           "+ " + of + index,
		model.IndexRemoved:         "- " + of + index + "  (refused)",
		model.IndexChanged:         "~ " + of + index + "  (refused: it is another one now)",
		model.TimingChanged:        "~ timing  (refused)",
		model.TTLRemoved:           "- " + of + "ttl of the indexed column " + cli.Shown(ch.Name) + "  (refused)",
		model.JournalAdded:         "+ journal",
		model.JournalRemoved:       "- journal",
		model.BigtableTableMissing: "+ bigtable table " + ch.Name + "  (missing in the instance)",
		model.FamilyMissing:        "+ bigtable column family " + ch.Name + "  (missing in the instance)",
	}[ch.Kind]
	if !ok {
		return "? " + string(ch.Kind)
	}
	return line
}

// declarationLine is the line for a change of what is declared of columns.
func declarationLine(ch model.SchemaChange) string {
	line := "table " + ch.Table + ": "
	if ch.Name != "" {
		line += "column " + cli.Shown(ch.Name) + " "
	}
	mark := "~ "
	ttl := schemafile.Duration(ch.Column.TTL)
	if ch.Column.NotifyExpired {
		ttl += ", notify expired"
	}
	switch ch.Kind {
	case model.ColumnRemoved:
		return "- " + line + string(ch.Was.Type) + "  (refused)"
	case model.TTLChanged:
		return mark + line + "ttl " + cmp.Or(ttl, "none")
	case model.ColumnDeclared:
		mark = "+ "
		if line += string(ch.Column.Type); ttl != "" {
			line += ", ttl " + ttl
		}
	default:
		line += string(ch.Column.Type)
	}
	if ch.Was.Type != "" && ch.Was.Type != ch.Column.Type {
		line += ", was " + string(ch.Was.Type)
	}
	if ch.Err() != nil {
		line += "  (refused: only bytes can become another type)"
	}
	return mark + line
}

func indexText(ix percolator.Index) string {
	unique := ""
	if ix.Unique {
		unique = "unique "
	}
	return fmt.Sprintf("%sindex %s on %s", unique, ix.Name, cli.Shown(ix.Column))
}

func printPlan(w io.Writer, plan model.SchemaPlan) {
	for _, parts := range planParts(plan) {
		_, _ = fmt.Fprintln(w, changeLine(parts...))
	}
}

func NewSchemaDiff() *cobra.Command {
	var f schemaFlags
	cmd := &cobra.Command{
		Use: "diff FILE",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := cli.ReadSchema(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context) error {
				plan, err := f.PlanSchema(ctx, s)
				if err != nil {
					return err
				}
				same := len(plan.Changes) == 0
				if err := f.output.Emit(cmd.OutOrStdout(), newPlanJSON(plan), func(w io.Writer) {
					if printPlan(w, plan); same {
						_, _ = fmt.Fprintf(w, "no difference from the stored schema, version %d\n", plan.Stored.Version)
					}
				}); err != nil || same {
					return err
				}
				return cli.Findings("%s differs from the stored schema: %s", args[0], cli.Counted(len(plan.Changes), "change"))
			})
		},
	}
	f.add(cmd)
	return cmd
}
