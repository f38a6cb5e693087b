package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// verifyJSON is what "schema verify" prints for programs. Names are as shown.
type verifyJSON struct {
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

func newSchemaVerify() *cobra.Command {
	var f queryFlags
	var at asOfFlag
	var opts admin.VerifyIndexOptions
	cmd := &cobra.Command{
		Use:  "verify TABLE INDEX",
		Args: tableAndIndex,
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
			if opts.Timestamp, err = at.timestamp(ctx, c); err != nil {
				return err
			}
			return verifyIndex(ctx, cmd, c, args[0], args[1], opts, f.output)
		}, reading),
	}
	f.add(cmd, defaultWalkTimeout)
	at.add(cmd)
	cmd.Flags().IntVar(&opts.MaxFindings, "limit", 100, "how many findings to list, at most 10000; all are counted")
	return cmd
}

func verifyIndex(ctx context.Context, cmd *cobra.Command, c *percolator.Client, table, index string, opts admin.VerifyIndexOptions, output outputFlag) error {
	say, end := statusLine(cmd)
	opts.Progress = func(r admin.IndexReport) {
		say(fmt.Sprintf("%d cells, %d entries, %d findings", r.Cells, r.Entries, r.Damaged()))
	}
	r, err := admin.New(c).VerifyIndex(ctx, table, index, opts)
	end()
	if err != nil {
		return fmt.Errorf("after %d cells and %d entries, with %d findings: %w", r.Cells, r.Entries, r.Damaged(), err)
	}
	out := newVerifyJSON(table, index, r)
	if err := output.emit(cmd.OutOrStdout(), out, out.print); err != nil {
		return err
	}
	if r.Damaged() > 0 {
		return findings("the index does not fit its table: %s", counted(r.Damaged(), "finding"))
	}
	return nil
}

func newVerifyJSON(table, index string, r admin.IndexReport) verifyJSON {
	return verifyJSON{table, index, r, arrayOf(r.Findings, func(f admin.IndexFinding) findingJSON {
		return findingJSON{string(f.Damage), shownName(f.Cell.Row), shownName(f.Other.Row), f.Entry}
	})}
}

func (v verifyJSON) print(w io.Writer) {
	building := ""
	if v.Building {
		building = ", which is being built"
	}
	_, _ = fmt.Fprintf(w, "index %s of %s%s: %d cells, %d entries, %d findings at %s\n", v.Index, v.Table, building, v.Cells, v.Entries, v.Damaged(), atTime(v.Snapshot))
	if len(v.Findings) == 0 {
		return
	}
	t := newTable(w, "DAMAGE", "ROW", "OTHER ROW", "ENTRY")
	for _, f := range v.Findings {
		t.row(f.Damage, f.Row, f.Other, f.Entry)
	}
	if int64(len(v.Findings)) < v.Damaged() {
		t.row("…", "", "", "more with --limit")
	}
	t.flush()
}
