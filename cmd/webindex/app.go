package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/summary"
)

// app is what the commands share.
type app struct {
	stdout, stderr *os.File // data goes to stdout; messages and progress go to stderr
	log            *slog.Logger
	verbose        bool

	summaryPath string
	summaryFile *os.File
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "webindex",
		Short: "A live index of web pages, kept by transactions and observers",
		Long: `Webindex loads crawled pages into Bigtable, by transactions. Observers turn them into an index: they find
duplicates, count the links between pages, attach the texts of links to their targets, and publish what the search page shows.

Start with "webindex demo": it needs nothing else. The other commands work on a running store: a Bigtable
instance, or an emulator named by BIGTABLE_EMULATOR_HOST, and an oracle. PERCOLATOR_PROJECT, PERCOLATOR_INSTANCE
and PERCOLATOR_TSO_ADDR name them, as they do for percolator, or flags.`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			level := slog.LevelWarn
			if a.verbose {
				level = slog.LevelDebug
			}
			a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
			return a.openSummary()
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log details on stderr")
	flags.StringVar(&a.summaryPath, "summary", "", "write what was done to this `file`: one JSON object on a line for each input")
	root.AddCommand(
		newDemoCommand(a), newInitCommand(a), newLoadCommand(a), newWorkerCommand(a),
		newServeCommand(a), newVerifyCommand(a), newDeleteCommand(a),
	)
	return root
}

// openSummary creates the summary file before the work begins: a path that cannot be written is
// better known now, and so is a pipe without a reader. Without a path nothing is kept.
func (a *app) openSummary() (err error) {
	a.summaryFile, err = os.OpenFile(cmp.Or(a.summaryPath, os.DevNull), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o666)
	return err
}

func (a *app) closeSummary() error {
	if a.summaryFile == nil {
		return nil
	}
	return a.summaryFile.Close()
}

// summarize prints what was done, and appends it to the summary file.
func (a *app) summarize(s *summary.Summary) error {
	fmt.Fprintln(a.stdout)
	return errors.Join(s.WriteText(a.stdout), s.WriteJSON(a.summaryFile))
}
