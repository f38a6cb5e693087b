package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// letterJSON is a dead letter in the output for programs. Values are not shown: they may be large.
type letterJSON struct {
	ID       string    `json:"id"`
	Queue    string    `json:"queue"`
	Key      string    `json:"key"`
	Bytes    int       `json:"bytes"`
	Rejected time.Time `json:"rejected"` // by the oracle's clock
	Reason   string    `json:"reason"`
}

func newLetterJSON(l exportqueue.DeadLetter) letterJSON {
	return letterJSON{l.ID(), l.Queue, cli.Shown(l.Key), len(l.Value), l.CommitTS.Time().UTC(), l.Reason}
}

// lettersOf streams dead letters in a snapshot of now.
func lettersOf(ctx context.Context, c *percolator.Client, table, queue string) iter.Seq2[exportqueue.DeadLetter, error] {
	return func(yield func(exportqueue.DeadLetter, error) bool) {
		s, err := c.Snapshot(ctx)
		if err != nil {
			yield(exportqueue.DeadLetter{}, err)
			return
		}
		exportqueue.DeadLetters(ctx, s, table, queue)(yield)
	}
}

func NewExportsLs() *cobra.Command {
	var f cli.ListFlags
	limit, queue := 100, ""
	cmd := &cobra.Command{
		Use:     "ls TABLE",
		PreRunE: func(*cobra.Command, []string) error { return cli.NotNegative("limit", limit) },
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			out := struct {
				Letters []letterJSON `json:"letters"`
				More    bool         `json:"more"` // there are more than --limit
			}{Letters: []letterJSON{}}
			for l, err := range lettersOf(ctx, c, args[0], queue) {
				if err != nil {
					return err
				}
				if out.More = len(out.Letters) == limit; out.More {
					break
				}
				out.Letters = append(out.Letters, newLetterJSON(l))
			}
			if len(out.Letters) == 0 {
				if err := knownQueue(c, queue); err != nil {
					return err
				}
			}
			return f.Output.Emit(cmd.OutOrStdout(), out, func(w io.Writer) { printLetters(w, out.Letters, out.More) })
		}),
	}
	f.Add(cmd, cli.DataTimeout)
	cmd.Flags().IntVar(&limit, "limit", limit, "how many are listed")
	cmd.Flags().StringVar(&queue, "queue", "", "only those of this queue, named by its table")
	return cmd
}

// knownQueue is nil if the schema has a queue of that name, or none was named.
func knownQueue(c *percolator.Client, queue string) error {
	if queue == "" {
		return nil
	}
	return cli.InSchema(c, queue)
}

func printLetters(w io.Writer, letters []letterJSON, more bool) {
	if len(letters) == 0 {
		_, _ = fmt.Fprintln(w, "no dead letters")
		return
	}
	t := cli.NewTable(w, "LETTER", "KEY", "BYTES", "REJECTED", "REASON")
	for _, l := range letters {
		t.Row(l.ID, l.Key, l.Bytes, cli.Age(time.Now(), l.Rejected), cli.OneLine(l.Reason))
	}
	if more {
		t.Row("…", "", "", "", "more with --limit")
	}
	t.Flush()
}

// letterFlags choose dead letters of a table.
type letterFlags struct{ refusedFlags }

func (f *letterFlags) check(cmd *cobra.Command, args []string) error {
	if !f.oneWay(len(args) > 1) || len(args) == 0 {
		return cli.Usagef("%s takes a table of dead letters, and letters, or --queue, or --all", cmd.CommandPath())
	}
	return nil
}

// What one transaction does with dead letters: so many, or fewer whose values have so many bytes.
const (
	LettersAtOnce     = 100
	LetterBytesAtOnce = 4 << 20
)

// batches streams what was chosen, in parts for one transaction each.
func (f *letterFlags) batches(ctx context.Context, c *percolator.Client, table string, ids []string) iter.Seq2[[]exportqueue.DeadLetter, error] {
	return func(yield func([]exportqueue.DeadLetter, error) bool) {
		var batch []exportqueue.DeadLetter
		bytes := 0
		for l, err := range lettersOf(ctx, c, table, f.of) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case len(ids) > 0 && !slices.Contains(ids, l.ID()):
				continue
			case len(batch) == LettersAtOnce || bytes+len(l.Value) > LetterBytesAtOnce && len(batch) > 0:
				if !yield(batch, nil) {
					return
				}
				batch, bytes = nil, 0
			}
			batch, bytes = append(batch, l), bytes+len(l.Value)
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// doLetter is what is done with a letter.
type doLetter func(l exportqueue.DeadLetter, ctx context.Context, tx *percolator.Txn) error

// command does something with what was chosen. It asks the question before, unless that is "".
func (f *letterFlags) command(verb, did, question string, do doLetter) *cobra.Command {
	cmd := &cobra.Command{
		Use:  verb + " TABLE [LETTER…]",
		Args: f.check,
		RunE: f.DataFlags.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			if question != "" {
				if err := f.consent.Ask(ctx, cmd, "%s", question); err != nil {
					return err
				}
			}
			return f.each(ctx, cmd, c, args, did, do)
		}),
	}
	f.add(cmd, "every letter in the table", "queue", "every letter of this queue, named by its table")
	if question != "" {
		f.consent.AddYes(cmd)
	}
	return cmd
}

// each does something with every chosen letter and says so.
func (f *letterFlags) each(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string, did string, do doLetter) error {
	out := struct {
		Done    string       `json:"done"` // retried or dropped
		DryRun  bool         `json:"dryRun"`
		Letters []letterJSON `json:"letters"`
	}{did, f.consent.DryRun, []letterJSON{}}
	ids := slices.Compact(slices.Sorted(slices.Values(args[1:])))
	for batch, err := range f.batches(ctx, c, args[0], ids) {
		if err == nil && !f.consent.DryRun {
			batch, err = handle(ctx, c, batch, do)
		}
		if err != nil {
			return fmt.Errorf("after %d letters: %w", len(out.Letters), err)
		}
		for _, l := range batch {
			out.Letters = append(out.Letters, newLetterJSON(l))
			if !f.Output.IsJSON() {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", f.happened(did), text.Line(l.ID()))
			}
		}
	}
	if len(out.Letters) == 0 {
		if err := knownQueue(c, f.of); err != nil {
			return err
		}
	}
	err := f.Output.EmitText(cmd.OutOrStdout(), out, fmt.Sprintf("%d %s", len(out.Letters), f.happened(did)))
	if missing := len(ids) - len(out.Letters); err == nil && missing > 0 {
		err = fmt.Errorf("%w: %d of the letters; percolator exports ls lists them", percolator.ErrNotFound, missing)
	}
	return err
}

// handle does something with letters in one transaction, and returns those that were still there.
func handle(ctx context.Context, c *percolator.Client, batch []exportqueue.DeadLetter, do doLetter) (done []exportqueue.DeadLetter, err error) {
	_, err = c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		done = nil
		for _, l := range batch {
			switch err := do(l, ctx, tx); {
			case errors.Is(err, percolator.ErrNotFound): // somebody else was faster
				continue
			case err != nil:
				return err
			}
			done = append(done, l)
		}
		return nil
	})
	return done, err
}

// NewExportsRetry is "exports retry".
func NewExportsRetry() *cobra.Command {
	return new(letterFlags).command("retry", "retried", "", exportqueue.DeadLetter.Retry)
}

// NewExportsDrop is "exports drop".
func NewExportsDrop() *cobra.Command {
	return new(letterFlags).command("drop", "dropped", "Drop the refused entries? This cannot be undone.", exportqueue.DeadLetter.Drop)
}
