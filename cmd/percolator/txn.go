package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// scriptJSON is what "txn" prints for programs.
type scriptJSON struct {
	Snapshot    tso.Timestamp `json:"snapshot"` // what was read
	Reads       []scriptRead  `json:"reads"`
	Writes      int           `json:"writes"` // statements that write
	Attempts    int           `json:"attempts"`
	DryRun      bool          `json:"dryRun"`
	Committed   tso.Timestamp `json:"committed,omitempty"` // absent if nothing was written
	CommittedAt *time.Time    `json:"committedAt,omitempty"`
}

type txnFlags struct {
	queryFlags
	at          asOfFlag
	dryRun      bool
	maxAttempts int
}

func newTxn() *cobra.Command {
	var f txnFlags
	cmd := &cobra.Command{
		Use:  "txn [FILE]",
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.start(cmd, args) },
	}
	f.add(cmd, defaultCellTimeout)
	f.at.add(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read and check, and commit nothing")
	cmd.Flags().IntVar(&f.maxAttempts, "max-attempts", 0, "give up after so many conflicts; 0: when --timeout has passed")
	return cmd
}

func (f *txnFlags) start(cmd *cobra.Command, args []string) error {
	if err := notNegative("max-attempts", f.maxAttempts); err != nil {
		return err
	}
	script, err := openScript(cmd, args)
	if err != nil {
		return err
	}
	writes := slices.IndexFunc(script, statement.writes)
	var configure []func(*percolator.Config)
	if f.at.text != "" {
		if writes >= 0 {
			return usagef("line %d: %s cannot be together with --as-of, which only reads", script[writes].line, script[writes].verb)
		}
		configure = append(configure, reading)
	}
	return f.with(cmd, func(ctx context.Context, c *percolator.Client) error {
		if err := encode(script, typesOf(c)); err != nil {
			return err
		}
		switch {
		case writes < 0:
			return f.view(ctx, cmd, c, script)
		case f.dryRun:
			return f.try(ctx, cmd, c, script)
		}
		return f.commit(ctx, cmd, c, script)
	}, configure...)
}

func openScript(cmd *cobra.Command, args []string) (script []statement, err error) {
	path := cmp.Or(strings.Join(args, ""), "-") // there is at most one
	err = readInput(cmd.Context(), path, cmd.InOrStdin(), maxScriptBytes, func(text []byte) (err error) {
		script, err = parseScript(text)
		return err
	})
	return script, err
}

// view runs a script that only reads.
func (f *txnFlags) view(ctx context.Context, cmd *cobra.Command, c *percolator.Client, script []statement) error {
	opts, err := f.at.option(ctx, c)
	if err != nil {
		return err
	}
	s, err := c.Snapshot(ctx, opts...)
	if err != nil {
		return err
	}
	a := attempt{in: c}
	err = a.run(ctx, s, nil, script)
	return f.end(cmd, a, scriptJSON{Snapshot: s.StartTimestamp(), Attempts: 1, DryRun: f.dryRun}, err)
}

// try runs a script and commits nothing.
func (f *txnFlags) try(ctx context.Context, cmd *cobra.Command, c *percolator.Client, script []statement) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing was sent
	a := attempt{in: c}
	err = a.run(ctx, tx, tx, script)
	return f.end(cmd, a, scriptJSON{Snapshot: tx.StartTimestamp(), Attempts: 1, DryRun: true}, err)
}

func (f *txnFlags) commit(ctx context.Context, cmd *cobra.Command, c *percolator.Client, script []statement) error {
	var opts []percolator.TxnOption
	if f.maxAttempts > 0 {
		opts = append(opts, percolator.MaxAttempts(f.maxAttempts))
	}
	var last attempt
	var out scriptJSON
	ts, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		last = attempt{in: c}
		out.Attempts++
		out.Snapshot = tx.StartTimestamp()
		return last.run(ctx, tx, tx, script)
	}, opts...)
	if err == nil && last.writes > 0 {
		out.Committed, out.CommittedAt = ts, new(ts.Time().UTC())
	}
	return f.end(cmd, last, out, err)
}

// end prints what the last attempt has read, unless it failed for a reason that makes it worthless,
// and how it ended.
func (f *txnFlags) end(cmd *cobra.Command, a attempt, out scriptJSON, err error) error {
	if err != nil && !errors.Is(err, errRequirement) {
		return err
	}
	out.Reads, out.Writes = a.forJSON(), a.writes
	werr := f.output.emit(cmd.OutOrStdout(), out, func(w io.Writer) {
		a.print(w)
		if err == nil { // otherwise the error says how it ended
			_, _ = fmt.Fprintln(w, out.ending())
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %w", percolator.ErrConflict, err)
	}
	return werr
}

func (out scriptJSON) ending() string {
	again := ""
	if out.Attempts > 1 {
		again = fmt.Sprintf(", in attempt %d", out.Attempts)
	}
	switch {
	case out.Writes == 0:
		return "read at " + atTime(out.Snapshot) + again
	case out.DryRun:
		return fmt.Sprintf("not committed: %d statements would write", out.Writes)
	}
	return "committed at " + atTime(out.Committed) + again
}
