package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// Gauges makes instruments that are read when metrics are collected. Err is what went wrong while
// they were made.
type Gauges struct {
	Meter metric.Meter
	Err   error

	all []metric.Observable
}

// Counter makes a counter of integers.
func (g *Gauges) Counter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := g.Meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	g.all, g.Err = append(g.all, c), errors.Join(g.Err, err)
	return c
}

// Gauge makes a gauge of integers.
func (g *Gauges) Gauge(name, unit, description string) metric.Int64ObservableGauge {
	v, err := g.Meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	g.all, g.Err = append(g.all, v), errors.Join(g.Err, err)
	return v
}

// Seconds makes a gauge of durations.
func (g *Gauges) Seconds(name, description string) metric.Float64ObservableGauge {
	v, err := g.Meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	g.all, g.Err = append(g.all, v), errors.Join(g.Err, err)
	return v
}

// Register has read called whenever metrics are collected.
func (g *Gauges) Register(read ...func(metric.Observer)) (metric.Registration, error) {
	if g.Err != nil {
		return nil, g.Err
	}
	return g.Meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, f := range read {
			f(to)
		}
		return nil
	}, g.all...)
}
