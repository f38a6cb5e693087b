package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

func newWorkerCommand(a *app) *cobra.Command {
	var (
		t         target
		untilIdle bool
		every     time.Duration
		metrics   string
	)
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run the observers that keep the index",
		Long: `Worker joins the store and runs observers until SIGINT or SIGTERM; then it finishes the runs under way. Any number of workers may run, on any number of machines, and they may come, go and die at any time.

With OTEL_EXPORTER_OTLP_ENDPOINT it sends metrics and traces to an OpenTelemetry collector by gRPC (docs/TELEMETRY.md).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every <= 0 {
				return errors.New("--progress must be positive")
			}
			stopTelemetry, err := t.startTelemetry(cmd.Context(), metrics, a.stderr, a.log)
			if err != nil {
				return err
			}
			defer stopTelemetry()
			return t.with(cmd.Context(), a.log, func(c *percolator.Client) error { return a.work(cmd.Context(), c, t, untilIdle, every) })
		},
	}
	t.addFlags(cmd)
	cmd.Flags().StringVar(&metrics, "metrics", "", "loopback `address` of /metrics for Prometheus; none by default")
	cmd.Flags().BoolVar(&untilIdle, "until-idle", false, "end when there is nothing left to do")
	cmd.Flags().DurationVar(&every, "progress", lineInterval, "how often to say on standard error what was done, if anything was")
	return cmd
}

// endingLimit bounds what a worker that was interrupted still asks the store.
const endingLimit = 10 * time.Second

// work runs one worker. When it ends because nothing is left to do, the summary says what the index
// holds then.
func (a *app) work(ctx context.Context, client *percolator.Client, t target, untilIdle bool, every time.Duration) error {
	began, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	m := startMeter(client)
	w, err := startWorkers(ctx, []*percolator.Client{client}, a.log)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "worker: joined %s/%s\n", t.project, t.instance)
	done := a.showWork(w, every)
	if untilIdle {
		err = w.waitIdle(ctx)
	} else {
		<-w.ctx.Done() // interrupted, which is how a worker is stopped, or it has failed
		fmt.Fprintln(a.stderr, "worker: stopping, after the runs that are in flight")
	}
	err = errors.Join(err, w.stop())
	done()
	// An interrupted worker reports, too.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endingLimit)
	defer cancel()
	err = errors.Join(err, w.failures(ending))
	s := m.stop(summary.Summary{Worked: w.runs()})
	if untilIdle && err == nil {
		err = describeIndex(ctx, client, began.StartTimestamp(), s)
	}
	return errors.Join(err, a.summarize(s))
}

// describeIndex adds to a summary what the index holds, and how long the pages took that became
// searchable since a time. Both come from one snapshot.
func describeIndex(ctx context.Context, client *percolator.Client, since tso.Timestamp, s *summary.Summary) error {
	return client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		var err error
		if s.Stored, err = index.CountTotals(ctx, snap); err != nil {
			return err
		}
		latencies, err := index.Latencies(ctx, snap, since)
		s.Latency = summary.NewLatency(latencies)
		return err
	})
}
