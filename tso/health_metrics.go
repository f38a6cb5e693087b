package tso

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// registerHealthMetrics registers the instruments that show what Status says.
func (s *Server) registerHealthMetrics() (unregister func(), err error) {
	meter := s.cfg.MeterProvider.Meter("github.com/gopercolator/percolator/tso")
	var instruments []metric.Observable
	gauge := func(name, unit, description string) metric.Float64ObservableGauge {
		g, gaugeErr := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		if gaugeErr != nil && err == nil {
			err = gaugeErr
		}
		instruments = append(instruments, g)
		return g
	}
	ready := gauge("percolator.tso.ready", "", "1 while this server leads, or follows a leader that it knows")
	epoch := gauge("percolator.tso.epoch", "", "Counts the leaders, in the record seen last")
	lease := gauge("percolator.tso.lease.left", "s", "For how long this server can lead without the store; 0 while it does not lead")
	window := gauge("percolator.tso.window.left", "s", "For how much time timestamps are reserved and not handed out; 0 while it does not lead")
	ahead := gauge("percolator.tso.high_water.ahead", "s", "How far the high-water mark is ahead of this machine's clock")
	silence := gauge("percolator.tso.store.silence", "s", "How long the store has not answered; -1 before its first answer")
	if err != nil {
		return nil, fmt.Errorf("tso: registering metrics: %w", err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := s.Status()
		var isReady float64
		if st.Ready() == nil {
			isReady = 1
		}
		o.ObserveFloat64(ready, isReady)
		o.ObserveFloat64(epoch, float64(st.Record.Epoch))
		o.ObserveFloat64(lease, st.LeaseLeft.Seconds())
		o.ObserveFloat64(window, s.alloc.windowLeft().Seconds())
		if st.Record.HighWater > 0 {
			o.ObserveFloat64(ahead, st.Record.HighWater.Sub(s.elector.clock.now()).Seconds())
		}
		silent := st.StoreAnswered.Seconds()
		if st.StoreAnswered < 0 {
			silent = -1
		}
		o.ObserveFloat64(silence, silent)
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("tso: registering metrics: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil
}
