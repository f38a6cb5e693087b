package engine

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// observed is the instruments that a collection reads.
type observed struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (o *observed) counter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := o.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	o.all, o.err = append(o.all, c), errors.Join(o.err, err)
	return c
}

func (o *observed) gauge(name, unit, description string) metric.Int64ObservableGauge {
	g, err := o.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	o.all, o.err = append(o.all, g), errors.Join(o.err, err)
	return g
}

func (o *observed) seconds(name, description string) metric.Float64ObservableGauge {
	g, err := o.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	o.all, o.err = append(o.all, g), errors.Join(o.err, err)
	return g
}

// registerMetrics exports what Stats counts, and what the client knows of itself. It returns nil
// without a MeterProvider.
func (e *Engine) registerMetrics(p metric.MeterProvider) (metric.Registration, error) {
	if p == nil {
		return nil, nil
	}
	o := &observed{meter: p.Meter(telemetry.Scope)}
	read := []func(metric.Observer){e.transactionMetrics(o), e.readMetrics(o), e.noticeMetrics(o), e.collectionMetrics(o)}
	if o.err != nil {
		return nil, o.err
	}
	return o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, f := range read {
			f(to)
		}
		return nil
	}, o.all...)
}

func labelled(key, value string) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (e *Engine) transactionMetrics(o *observed) func(metric.Observer) {
	ended := o.counter("percolator.transactions", "{transaction}", "Attempts of transactions that write, by outcome")
	resolved := o.counter("percolator.locks.resolved", "{lock}", "Locks of other transactions that were resolved, by outcome")
	pending := o.gauge("percolator.phase_two.pending", "{row}", "Rows that wait for phase two or for being rolled back, or are under way")
	left := o.counter("percolator.phase_two.failures", "{row}", "Rows that phase two gave up and left to lock resolution")
	committed, conflict := labelled(telemetry.AttrOutcome, "committed"), labelled(telemetry.AttrOutcome, "conflict")
	aborted, unknown := labelled(telemetry.AttrOutcome, "aborted"), labelled(telemetry.AttrOutcome, "unknown")
	forward, back := labelled(telemetry.AttrOutcome, "rolled_forward"), labelled(telemetry.AttrOutcome, "rolled_back")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(ended, n.Transactions.Load(), committed)
		to.ObserveInt64(ended, n.Conflicts.Load(), conflict)
		to.ObserveInt64(ended, n.Aborts.Load(), aborted)
		to.ObserveInt64(ended, n.Unknown.Load(), unknown)
		to.ObserveInt64(resolved, n.RolledForward.Load(), forward)
		to.ObserveInt64(resolved, n.RolledBack.Load(), back)
		to.ObserveInt64(pending, int64(len(e.Bulk.Slots)))
		to.ObserveInt64(left, n.PhaseTwoLeft.Load())
	}
}

func (e *Engine) readMetrics(o *observed) func(metric.Observer) {
	rowsRead := o.counter("percolator.rows.read", "{row}", "Rows that Bigtable has sent")
	rowsMutated := o.counter("percolator.rows.mutated", "{row}", "Rows named in mutations")
	waiting := o.gauge("percolator.lock.waiters", "{read}", "Reads that are getting past a lock now")
	fetched := o.counter("percolator.prefetch.cells", "{cell}", "Cells that were read ahead")
	used := o.counter("percolator.prefetch.hits", "{cell}", "Cells read ahead that were then asked for")
	late := o.counter("percolator.late_records", "{record}", "Records without data below the GC watermark, read as absent")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(rowsRead, n.RowsRead.Load())
		to.ObserveInt64(rowsMutated, n.RowsMutated.Load())
		to.ObserveInt64(waiting, n.LockWaiting.Load())
		to.ObserveInt64(fetched, n.Prefetched.Load())
		to.ObserveInt64(used, n.PrefetchUsed.Load())
		to.ObserveInt64(late, n.LateRecords.Load())
	}
}

func (e *Engine) noticeMetrics(o *observed) func(metric.Observer) {
	written := o.counter("percolator.notifications.written", "{notification}", "Notify cells written")
	hints := o.counter("percolator.hints", "{hint}", "Hints for workers of other processes, by outcome")
	sent, lost, taken := labelled(telemetry.AttrOutcome, "sent"), labelled(telemetry.AttrOutcome, "dropped"), labelled(telemetry.AttrOutcome, "taken")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(written, n.Notifications.Load())
		to.ObserveInt64(hints, n.HintsLeft.Load(), sent)
		to.ObserveInt64(hints, n.HintsLost.Load(), lost)
		to.ObserveInt64(hints, n.HintsTaken.Load(), taken)
	}
}

func (e *Engine) collectionMetrics(o *observed) func(metric.Observer) {
	age := o.seconds("percolator.meta.age", "Age of what this client knows of the schema and the safepoint")
	lag := o.seconds("percolator.collection.lag", "How much longer than the retention the oldest garbage has been kept")
	holds := o.gauge("percolator.holds", "{hold}", "Holds that keep old versions from collection")
	cycles := o.counter("percolator.collection.cycles", "{cycle}", "Cycles of this client's collectors, by outcome")
	versions := o.counter("percolator.collection.versions", "{cell}", "Bigtable cells that this client's collectors removed")
	done, failed := labelled(telemetry.AttrOutcome, "done"), labelled(telemetry.AttrOutcome, "failed")
	begun := time.Now()
	return func(to metric.Observer) {
		m, asOf := e.Meta.Snapshot()
		to.ObserveFloat64(age, time.Since(asOf).Seconds())
		if now, ok := e.Clock.EstimatedTime(); ok {
			to.ObserveFloat64(lag, e.collectionLag(m, now, time.Since(begun)).Seconds())
			to.ObserveInt64(holds, m.HoldsAt(now))
		}
		to.ObserveInt64(cycles, e.Store.Count.Cycles.Load(), done)
		to.ObserveInt64(cycles, e.Store.Count.CyclesFailed.Load(), failed)
		to.ObserveInt64(versions, e.Store.Count.Collected.Load())
	}
}

// collectionLag is how far the GC watermark lies behind the retention. For an instance that was
// never collected it counts from when this client began, as no client knows how old the instance
// is.
func (e *Engine) collectionLag(m meta.State, now tso.Timestamp, running time.Duration) time.Duration {
	kept := running
	if m.Watermark > 0 {
		kept = now.Sub(m.Watermark)
	}
	return max(0, kept-e.Config.Retention)
}
