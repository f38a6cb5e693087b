package tso

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// registerMetrics registers the instruments of a server. They are read when they are
// collected, so that requests do not pay for them.
func (s *Server) registerMetrics() (unregister func(), err error) {
	meter := s.cfg.MeterProvider.Meter("github.com/gopercolator/percolator/tso")
	failed := func(err error) (func(), error) { return nil, fmt.Errorf("tso: registering metrics: %w", err) }

	timestamps, err := meter.Int64ObservableCounter("percolator.tso.timestamps",
		metric.WithDescription("Timestamps handed out"), metric.WithUnit("{timestamp}"))
	if err != nil {
		return failed(err)
	}
	writes, err := meter.Int64ObservableCounter("percolator.tso.store.writes",
		metric.WithDescription("Writes sent to the store"), metric.WithUnit("{write}"))
	if err != nil {
		return failed(err)
	}
	elections, err := meter.Int64ObservableCounter("percolator.tso.elections",
		metric.WithDescription("Times that this server became the leader"), metric.WithUnit("{election}"))
	if err != nil {
		return failed(err)
	}
	leading, err := meter.Int64ObservableGauge("percolator.tso.leading",
		metric.WithDescription("1 while this server can hand out timestamps"))
	if err != nil {
		return failed(err)
	}
	sessions, err := meter.Int64ObservableGauge("percolator.tso.sessions",
		metric.WithDescription("Sessions that are open at this server"), metric.WithUnit("{session}"))
	if err != nil {
		return failed(err)
	}
	rowLocks, err := meter.Int64ObservableGauge("percolator.tso.row_locks",
		metric.WithDescription("Rows that are locked at this server"), metric.WithUnit("{lock}"))
	if err != nil {
		return failed(err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		served, _ := s.alloc.counts()
		o.ObserveInt64(timestamps, served)
		o.ObserveInt64(writes, s.elector.writes.Load())
		o.ObserveInt64(elections, s.elector.elections.Load())
		var leader int64
		if s.alloc.serving() {
			leader = 1
		}
		o.ObserveInt64(leading, leader)
		open, locked := s.liveness.counts()
		o.ObserveInt64(sessions, int64(open))
		o.ObserveInt64(rowLocks, int64(locked))
		return nil
	}, timestamps, writes, elections, leading, sessions, rowLocks)
	if err != nil {
		return failed(err)
	}
	return func() { _ = registration.Unregister() }, nil
}
