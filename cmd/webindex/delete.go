package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/percolator"
)

var errMissing = errors.New("some of the pages were not in the store")

func newDeleteCommand(a *app) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "delete URL…",
		Short: "Take pages out of the store",
		Long: `Delete removes the raw pages. Workers take them out of the index: their links no longer count, and a duplicate takes
the place of a canonical page.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, urls []string) error {
			return t.with(cmd.Context(), a.log, func(client *percolator.Client) error {
				m := startMeter(client)
				deleted, deleteErr := a.deletePages(cmd.Context(), client, urls)
				return errors.Join(deleteErr, client.Flush(cmd.Context()), a.summarize(m.stop(summary.Summary{Deleted: deleted})))
			})
		},
	}
	t.addFlags(cmd)
	return cmd
}

// deletePages deletes each page in a transaction of its own. A page that is missing does not keep
// the others.
func (a *app) deletePages(ctx context.Context, client *percolator.Client, urls []string) (*summary.Deleted, error) {
	var (
		d     summary.Deleted
		wrong error
	)
	for _, raw := range urls {
		url, err := page.Identity(raw)
		if err == nil {
			_, err = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return index.Delete(ctx, tx, url) })
		}
		switch {
		case err == nil:
			d.Deleted++
		case errors.Is(err, percolator.ErrNotFound), errors.Is(err, page.ErrURL):
			d.Missing++
			wrong = errMissing
			a.log.Error("not deleted", "url", raw, "reason", err)
		default:
			return &d, fmt.Errorf("delete %s: %w", url, err)
		}
	}
	return &d, wrong
}
