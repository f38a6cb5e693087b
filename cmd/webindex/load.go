package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/percolator"
)

// errBadInput makes the exit status 1 after everything that could be loaded was loaded. What was
// bad has been logged.
var errBadInput = errors.New("some of the input could not be read, see above")

func newLoadCommand(a *app) *cobra.Command {
	var (
		t       target
		inputs  []string
		restart bool
	)
	cmd := &cobra.Command{
		Use:   "load --input PATH…",
		Short: "Load crawls: WARC files, gzipped or not, or directories of HTML",
		Long: `Load brings the pages of each input into the store, some of them in each transaction. The index follows as soon as a
worker runs, here or elsewhere. It does not write again what the store has already, byte for byte.

An interrupted load resumes when it runs again with the same pages. Of two concurrent loads of the same pages the later
one continues, and the earlier one ends.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			sources := sourcesOf(append(inputs, args...))
			if len(sources) == 0 {
				return errors.New("nothing to load: name a WARC file or a directory with --input")
			}
			return t.with(cmd.Context(), a.log, func(c *percolator.Client) error { return a.loadAll(cmd.Context(), c, sources, restart) })
		},
	}
	t.addFlags(cmd)
	addInputFlag(cmd, &inputs)
	cmd.Flags().BoolVar(&restart, "restart", false, "look at every page, even those of an interrupted load")
	return cmd
}

func addInputFlag(cmd *cobra.Command, inputs *[]string) {
	cmd.Flags().StringArrayVar(inputs, "input", nil, "`path` of a WARC file or of a directory of HTML; repeat it for several")
}

func sourcesOf(paths []string) []load.Source {
	var sources []load.Source
	for _, p := range paths {
		sources = append(sources, load.Path(p))
	}
	return sources
}

// loadAll loads one input after the other, with a summary for each.
func (a *app) loadAll(ctx context.Context, client *percolator.Client, sources []load.Source, restart bool) error {
	var bad error
	for _, src := range sources {
		m := startMeter(client)
		l := &load.Loader{Client: client, Log: a.log, Restart: restart}
		counts, err := a.loadOne(ctx, l, src, nil)
		if err != nil {
			return err
		}
		if counts.Bad > 0 {
			bad = errBadInput
		}
		if err := client.Flush(ctx); err != nil {
			return err
		}
		if err := a.summarize(m.stop(loadedFrom(src, counts))); err != nil {
			return err
		}
	}
	return bad
}

// loadOne loads an input and shows how far it is. workers may be nil.
func (a *app) loadOne(ctx context.Context, l *load.Loader, src load.Source, w *workers) (load.Counts, error) {
	done := a.showProgress(src.Name, l, w)
	err := l.Load(ctx, src)
	if err == nil && w != nil {
		err = w.waitIdle(ctx)
	}
	done()
	return l.Counts(), err
}
