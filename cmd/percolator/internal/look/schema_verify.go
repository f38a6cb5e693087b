package look

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
	"github.com/gopercolator/percolator/percolator/admin"
)

// VerifyJSON is what "schema verify" prints for programs. Names are as shown.
type VerifyJSON struct {
	Table string `json:"table"`
	Index string `json:"index"`
	admin.IndexReport
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
	Damage string `json:"damage"`
	Row    string `json:"row,omitempty"`
	Other  string `json:"other,omitempty"` // the row that has the entry of the same value
	Entry  string `json:"entry,omitempty"` // of an undecodable entry: hash and length of its key
}

func NewSchemaVerify() *cobra.Command {
	var f cli.QueryFlags
	var at cli.AsOf
	var opts admin.VerifyIndexOptions
	cmd := &cobra.Command{
		Use: "verify TABLE INDEX",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
			if opts.Timestamp, err = at.Timestamp(ctx, c); err != nil {
				return err
			}
			return verifyIndex(ctx, cmd, c, args[0], args[1], opts, f.Output)
		}, cli.Reading),
	}
	f.Add(cmd, cli.WalkTimeout)
	at.Add(cmd)
	cmd.Flags().IntVar(&opts.MaxFindings, "limit", 100, "how many findings to list, at most 10000; all are counted")
	return cmd
}

func verifyIndex(ctx context.Context, cmd *cobra.Command, c *percolator.Client, table, index string, opts admin.VerifyIndexOptions, output cli.Output) error {
	say, end := cli.StatusLine(cmd)
	opts.Progress = func(r admin.IndexReport) {
		say(fmt.Sprintf("%d cells, %d entries, %d findings", r.Cells, r.Entries, r.Damaged()))
	}
	r, err := admin.New(c).VerifyIndex(ctx, table, index, opts)
	end()
	if err != nil {
		return fmt.Errorf("after %d cells and %d entries, with %d findings: %w", r.Cells, r.Entries, r.Damaged(), err)
	}
	out := NewVerifyJSON(table, index, r)
	return cmp.Or(output.Emit(cmd.OutOrStdout(), out, out.Print), cli.FindingsOf(r.Damaged(), "finding", "the index does not fit its table: %s"))
}

func NewVerifyJSON(table, index string, r admin.IndexReport) VerifyJSON {
	return VerifyJSON{table, index, r, ordered.Map(r.Findings, func(f admin.IndexFinding) findingJSON {
		return findingJSON{string(f.Damage), cli.ShownName(f.Cell.Row), cli.ShownName(f.Other.Row), f.Entry}
	})}
}

func (v VerifyJSON) Print(w io.Writer) {
	building := ""
	if v.Building {
		building = ", which is being built"
	}
	_, _ = fmt.Fprintf(w, "index %s of %s%s: %d cells, %d entries, %d findings at %s\n", v.Index, v.Table, building, v.Cells, v.Entries, v.Damaged(), text.At(v.Snapshot))
	if len(v.Findings) == 0 {
		return
	}
	t := cli.NewTable(w, "DAMAGE", "ROW", "OTHER ROW", "ENTRY")
	for _, f := range v.Findings {
		t.Row(f.Damage, f.Row, f.Other, f.Entry)
	}
	if int64(len(v.Findings)) < v.Damaged() {
		t.Row("…", "", "", "more with --limit")
	}
	t.Flush()
}
