package engine

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// registerMetrics exports what Stats counts, and what the client knows of itself. It returns nil
// without a MeterProvider.
func (e *Engine) registerMetrics(p metric.MeterProvider) (metric.Registration, error) {
	if p == nil {
		return nil, nil
	}
	o := &telemetry.Gauges{Meter: p.Meter(telemetry.Scope)}
	return o.Register(e.transactionMetrics(o), e.readMetrics(o), e.noticeMetrics(o), e.collectionMetrics(o), e.journalMetrics(o))
}

func labelled(key, value string) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (e *Engine) transactionMetrics(o *telemetry.Gauges) func(metric.Observer) {
	ended := o.Counter("percolator.transactions", "{transaction}", "Attempts of transactions that write, by outcome")
	resolved := o.Counter("percolator.locks.resolved", "{lock}", "Locks of other transactions that were resolved, by outcome")
	pending := o.Gauge("percolator.phase_two.pending", "{row}", "Rows that wait for phase two or for being rolled back, or are in flight")
	left := o.Counter("percolator.phase_two.failures", "{row}", "Rows that phase two gave up and left to lock resolution")
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
		to.ObserveInt64(pending, int64(len(e.Bulk.Slots)+len(e.Sweeping.Slots)))
		to.ObserveInt64(left, n.PhaseTwoLeft.Load())
	}
}

func (e *Engine) readMetrics(o *telemetry.Gauges) func(metric.Observer) {
	rowsRead := o.Counter("percolator.rows.read", "{row}", "Rows that Bigtable has sent")
	large := o.Counter("percolator.rows.large", "{row}", "Rows of which Bigtable has sent 64 MiB or more at once")
	rowsMutated := o.Counter("percolator.rows.mutated", "{row}", "Rows named in mutations")
	silent := o.Gauge("percolator.connections.silent", "{connection}", "Connections to Bigtable that answer nothing while others do")
	slowdowns := o.Counter("percolator.slowdowns", "{answer}", "Answers in which Bigtable asked to slow down")
	overloaded := o.Gauge("percolator.tables.overloaded", "{table}", "Tables on which Bigtable asks to slow down")
	waiting := o.Gauge("percolator.lock.waiters", "{read}", "Reads that are getting past a lock now")
	fetched := o.Counter("percolator.prefetch.cells", "{cell}", "Cells that were read ahead")
	used := o.Counter("percolator.prefetch.hits", "{cell}", "Cells read ahead that were then asked for")
	late := o.Counter("percolator.late_records", "{record}", "Records without data below the GC watermark, read as absent")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(rowsRead, n.RowsRead.Load())
		to.ObserveInt64(large, n.LargeRows.Load())
		to.ObserveInt64(rowsMutated, n.RowsMutated.Load())
		to.ObserveInt64(silent, n.SilentConnections.Load())
		to.ObserveInt64(slowdowns, e.Store.Pressure.Asked.Load())
		to.ObserveInt64(overloaded, int64(len(e.Store.Pressure.Tables())))
		to.ObserveInt64(waiting, n.LockWaiting.Load())
		to.ObserveInt64(fetched, n.Prefetched.Load())
		to.ObserveInt64(used, n.PrefetchUsed.Load())
		to.ObserveInt64(late, n.LateRecords.Load())
	}
}

func (e *Engine) noticeMetrics(o *telemetry.Gauges) func(metric.Observer) {
	written := o.Counter("percolator.notifications.written", "{notification}", "Notify cells written")
	hints := o.Counter("percolator.hints", "{hint}", "Hints for workers of other processes, by outcome")
	sent, lost, taken := labelled(telemetry.AttrOutcome, "sent"), labelled(telemetry.AttrOutcome, "dropped"), labelled(telemetry.AttrOutcome, "taken")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(written, n.Notifications.Load())
		to.ObserveInt64(hints, n.HintsLeft.Load(), sent)
		to.ObserveInt64(hints, n.HintsLost.Load(), lost)
		to.ObserveInt64(hints, n.HintsTaken.Load(), taken)
	}
}

func (e *Engine) collectionMetrics(o *telemetry.Gauges) func(metric.Observer) {
	age := o.Seconds("percolator.meta.age", "Age of what this client knows of the schema and the safepoint")
	lag := o.Seconds("percolator.collection.lag", "How much longer than the retention the oldest garbage has been kept")
	holds := o.Gauge("percolator.holds", "{hold}", "Holds that keep old versions from collection")
	cycles := o.Counter("percolator.collection.cycles", "{cycle}", "Cycles of this client's collectors, by outcome")
	versions := o.Counter("percolator.collection.versions", "{cell}", "Bigtable cells that this client's collectors removed")
	unread := o.Counter("percolator.collection.unread", "{row}", "Rows in which this client's collectors erased what was overwritten without reading them, and rows that contradict what clients tell, by outcome")
	done, failed := labelled(telemetry.AttrOutcome, "done"), labelled(telemetry.AttrOutcome, "failed")
	erased, contradicted := labelled(telemetry.AttrOutcome, "erased"), labelled(telemetry.AttrOutcome, "contradicted")
	started := time.Now()
	return func(to metric.Observer) {
		m, asOf := e.Meta.Snapshot()
		to.ObserveFloat64(age, time.Since(asOf).Seconds())
		if now, ok := e.Clock.EstimatedTime(); ok {
			to.ObserveFloat64(lag, e.collectionLag(m, now, time.Since(started)).Seconds())
			to.ObserveInt64(holds, m.HoldsAt(now))
		}
		to.ObserveInt64(cycles, e.Store.Count.Cycles.Load(), done)
		to.ObserveInt64(cycles, e.Store.Count.CyclesFailed.Load(), failed)
		to.ObserveInt64(versions, e.Store.Count.Collected.Load())
		to.ObserveInt64(unread, e.Store.Count.RowsUnread.Load(), erased)
		to.ObserveInt64(unread, e.Store.Count.RowsContradicted.Load(), contradicted)
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
