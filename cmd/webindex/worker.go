package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"

	"github.com/gopercolator/percolator/cmd/webindex/internal/index"
	"github.com/gopercolator/percolator/cmd/webindex/internal/summary"
)

func newWorkerCommand(a *app) *cobra.Command {
	var (
		t         target
		untilIdle bool
	)
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run the observers that keep the index",
		Long:  "Worker runs observers until it is interrupted. Any number of workers may run, on any number of machines.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, closeStore, err := t.open(cmd.Context(), a.log)
			if err != nil {
				return err
			}
			defer closeStore()
			return a.work(cmd.Context(), client, untilIdle)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&untilIdle, "until-idle", false, "end when there is nothing left to do")
	return cmd
}

// work runs one worker. When it ends because nothing is left to do, the summary says what the index holds then.
func (a *app) work(ctx context.Context, client *percolator.Client, untilIdle bool) error {
	began, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	m := startMeter(client)
	w, err := startWorkers(ctx, []*percolator.Client{client}, a.log)
	if err != nil {
		return err
	}
	if untilIdle {
		err = w.waitIdle(ctx)
	} else {
		<-w.ctx.Done() // interrupted, which is how a worker is stopped, or it has failed
	}
	err = errors.Join(err, w.stop(), w.failures())
	s := m.stop(summary.Summary{Worked: w.runs()})
	if untilIdle && err == nil {
		err = describeIndex(ctx, client, began.StartTimestamp(), s)
	}
	return errors.Join(err, a.summarize(s))
}

// describeIndex adds to a summary what the index holds, and how long the pages took that became searchable since a time.
// Both come from one snapshot.
func describeIndex(ctx context.Context, client *percolator.Client, since tso.Timestamp, s *summary.Summary) error {
	return client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		totals, err := index.CountTotals(ctx, snap)
		if err != nil {
			return err
		}
		s.Stored = &summary.Stored{
			Documents: totals.Documents, Clusters: totals.Clusters, Canonical: totals.Canonical,
			Links: totals.Links, Redirects: totals.Redirects,
		}
		latencies, err := index.Latencies(ctx, snap, since)
		s.Latency = summary.NewLatency(latencies)
		return err
	})
}
