package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newObservers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "observers",
		Short: "Change which observers a column has",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newObserversBackfill(), newObserversForget())
	return cmd
}

// walkFlags are those of the commands that go through a table for an observer.
type walkFlags struct {
	data dataFlags
	opts admin.ObserverOptions
}

func (f *walkFlags) add(cmd *cobra.Command) {
	f.data.add(cmd, defaultWalkTimeout)
	cmd.Flags().IntVar(&f.opts.RowsPerPage, "rows-per-page", 1000, "rows that are looked at with one request")
	cmd.Flags().DurationVar(&f.opts.Pause, "pause", 0, "pause between two pages, to leave room for others")
}

// walk is BackfillObserver or ForgetObserver.
type walk func(ctx context.Context, table, column, observer string, opts admin.ObserverOptions) (admin.ObserverProgress, error)

// run does it, with a bar on a terminal.
func (f *walkFlags) run(cmd *cobra.Command, args []string, did string, which func(c *percolator.Client) walk) error {
	if len(args) != 3 {
		return usagef("%s takes a table, a column and an observer", cmd.CommandPath())
	}
	names := make([]string, len(args))
	for i, arg := range args {
		var err error
		if names[i], err = fromShown(arg); err != nil {
			return err
		}
	}
	return f.data.with(cmd, func(ctx context.Context, c *percolator.Client) error {
		bar, done := walkBar(cmd)
		opts := f.opts
		opts.Count, opts.Progress = bar != nil, bar
		p, err := which(c)(ctx, names[0], names[1], names[2], opts)
		done()
		again := ""
		if p.Resumed {
			again = ", going on where an earlier run ended"
		}
		if err != nil {
			return fmt.Errorf("after %d rows (the same command goes on there): %w", p.Rows, err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d rows, %d %s%s\n", p.Rows, p.Changed, did, again)
		return err
	})
}

// walkBar shows how far a walk has come, on a terminal; elsewhere report is nil.
func walkBar(cmd *cobra.Command) (report func(admin.ObserverProgress), done func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.AppendDecorators(decor.CountersNoUnit("%d/%d rows"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	return func(p admin.ObserverProgress) {
			bar.SetTotal(max(p.Total, p.Rows), false)
			bar.SetCurrent(p.Rows)
		}, func() {
			bar.SetTotal(-1, true)
			bars.Wait()
		}
}
