package tso

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// instruments are those of a server. They are read when they are collected, so that requests do not
// pay for them.
type instruments struct {
	meter   metric.Meter
	all     []metric.Observable
	observe []func(metric.Observer, Status)
	err     error
}

func (s *Server) registerMetrics() (unregister func(), err error) {
	m := &instruments{meter: s.cfg.MeterProvider.Meter("github.com/gopercolator/percolator/tso")}
	m.counter("percolator.tso.timestamps", "{timestamp}", "Timestamps handed out",
		func(st Status) int64 { return st.Served })
	m.counter("percolator.tso.store.writes", "{write}", "Writes sent to the store",
		func(Status) int64 { return s.elector.writes.Load() })
	m.counter("percolator.tso.elections", "{election}", "Times that this server became the leader",
		func(Status) int64 { return s.elector.elections.Load() })
	m.gauge("percolator.tso.leading", "", "1 while this server can hand out timestamps",
		func(st Status) int64 { return oneIf(st.Leading) })
	m.gauge("percolator.tso.sessions", "{session}", "Sessions that are open at this server",
		func(Status) int64 { sessions, _ := s.liveness.counts(); return int64(sessions) })
	m.gauge("percolator.tso.row_locks", "{lock}", "Rows that are locked at this server",
		func(Status) int64 { _, rowLocks := s.liveness.counts(); return int64(rowLocks) })
	m.measure("percolator.tso.ready", "", "1 while this server leads, or follows a leader that it knows",
		func(st Status) (float64, bool) { return float64(oneIf(st.Ready() == nil)), true })
	m.measure("percolator.tso.epoch", "", "Counts the leaders, in the record seen last",
		func(st Status) (float64, bool) { return float64(st.Record.Epoch), true })
	m.measure("percolator.tso.lease.left", "s", "For how long this server can lead without the store; 0 while it does not lead",
		func(st Status) (float64, bool) { return st.LeaseLeft.Seconds(), true })
	m.measure("percolator.tso.window.left", "s", "For how much time timestamps are reserved and not handed out; 0 while it does not lead",
		func(st Status) (float64, bool) { return st.windowLeft.Seconds(), true })
	m.measure("percolator.tso.high_water.ahead", "s", "How far the high-water mark is ahead of this machine's clock",
		func(st Status) (float64, bool) {
			return st.Record.HighWater.Sub(s.elector.clock.now()).Seconds(), st.Record.HighWater > 0
		})
	m.measure("percolator.tso.store.silence", "s", "How long the store has not answered; -1 before its first answer",
		func(st Status) (float64, bool) {
			if st.StoreAnswered < 0 {
				return -1, true
			}
			return st.StoreAnswered.Seconds(), true
		})
	return m.register(s.Status)
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (m *instruments) counter(name, unit, description string, value func(Status) int64) {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(c, err, func(o metric.Observer, st Status) { o.ObserveInt64(c, value(st)) })
}

func (m *instruments) gauge(name, unit, description string, value func(Status) int64) {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(g, err, func(o metric.Observer, st Status) { o.ObserveInt64(g, value(st)) })
}

// measure adds a gauge that is observed while its value is known.
func (m *instruments) measure(name, unit, description string, value func(Status) (v float64, known bool)) {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(g, err, func(o metric.Observer, st Status) {
		if v, known := value(st); known {
			o.ObserveFloat64(g, v)
		}
	})
}

func (m *instruments) add(instrument metric.Observable, err error, observe func(metric.Observer, Status)) {
	m.all, m.observe, m.err = append(m.all, instrument), append(m.observe, observe), errors.Join(m.err, err)
}

func (m *instruments) register(status func() Status) (unregister func(), err error) {
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := status()
		for _, observe := range m.observe {
			observe(o, st)
		}
		return nil
	}, m.all...)
	if err = errors.Join(m.err, err); err != nil {
		return nil, fmt.Errorf("tso: registering metrics: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil
}
