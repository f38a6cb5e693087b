package percolator

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gopercolator/percolator/tso"
)

// observed is the instruments that are read when somebody collects.
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

// registerMetrics exports what Stats counts, and what the client knows of itself. nil: there is no MeterProvider.
func (c *Client) registerMetrics(p metric.MeterProvider) (metric.Registration, error) {
	if p == nil {
		return nil, nil
	}
	o := &observed{meter: p.Meter(scope)}
	read := []func(metric.Observer){c.transactionMetrics(o), c.readMetrics(o), c.noticeMetrics(o), c.collectionMetrics(o)}
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

func (c *Client) transactionMetrics(o *observed) func(metric.Observer) {
	ended := o.counter("percolator.transactions", "{transaction}", "Attempts of transactions that write, by outcome")
	settled := o.counter("percolator.locks.resolved", "{lock}", "Locks of other transactions that were settled, by outcome")
	pending := o.gauge("percolator.phase_two.pending", "{row}", "Rows that wait for phase two or for being rolled back, or are under way")
	left := o.counter("percolator.phase_two.failures", "{row}", "Rows that phase two gave up and left to lock resolution")
	committed, conflict := labelled(attrOutcome, "committed"), labelled(attrOutcome, "conflict")
	aborted, unknown := labelled(attrOutcome, "aborted"), labelled(attrOutcome, "unknown")
	forward, back := labelled(attrOutcome, "rolled_forward"), labelled(attrOutcome, "rolled_back")
	n := c.count
	return func(to metric.Observer) {
		to.ObserveInt64(ended, n.transactions.Load(), committed)
		to.ObserveInt64(ended, n.conflicts.Load(), conflict)
		to.ObserveInt64(ended, n.aborts.Load(), aborted)
		to.ObserveInt64(ended, n.unknown.Load(), unknown)
		to.ObserveInt64(settled, n.rolledForward.Load(), forward)
		to.ObserveInt64(settled, n.rolledBack.Load(), back)
		to.ObserveInt64(pending, int64(len(c.bulk.slots)))
		to.ObserveInt64(left, n.phaseTwoLeft.Load())
	}
}

func (c *Client) readMetrics(o *observed) func(metric.Observer) {
	rowsRead := o.counter("percolator.rows.read", "{row}", "Rows that Bigtable has sent")
	rowsMutated := o.counter("percolator.rows.mutated", "{row}", "Rows named in mutations")
	waiting := o.gauge("percolator.lock.waiters", "{read}", "Reads that are getting past a lock now")
	fetched := o.counter("percolator.prefetch.cells", "{cell}", "Cells that were read ahead")
	used := o.counter("percolator.prefetch.hits", "{cell}", "Cells read ahead that were then asked for")
	late := o.counter("percolator.late_records", "{record}", "Records without data below the mark, read as absent")
	n := c.count
	return func(to metric.Observer) {
		to.ObserveInt64(rowsRead, n.rowsRead.Load())
		to.ObserveInt64(rowsMutated, n.rowsMutated.Load())
		to.ObserveInt64(waiting, n.lockWaiting.Load())
		to.ObserveInt64(fetched, n.prefetched.Load())
		to.ObserveInt64(used, n.prefetchUsed.Load())
		to.ObserveInt64(late, n.lateRecords.Load())
	}
}

func (c *Client) noticeMetrics(o *observed) func(metric.Observer) {
	written := o.counter("percolator.notifications.written", "{notification}", "Notify cells written")
	hints := o.counter("percolator.hints", "{hint}", "Hints for workers of other processes, by outcome")
	sent, lost, taken := labelled(attrOutcome, "sent"), labelled(attrOutcome, "dropped"), labelled(attrOutcome, "taken")
	n := c.count
	return func(to metric.Observer) {
		to.ObserveInt64(written, n.notifications.Load())
		to.ObserveInt64(hints, n.hintsLeft.Load(), sent)
		to.ObserveInt64(hints, n.hintsLost.Load(), lost)
		to.ObserveInt64(hints, n.hintsTaken.Load(), taken)
	}
}

func (c *Client) collectionMetrics(o *observed) func(metric.Observer) {
	age := o.seconds("percolator.meta.age", "Age of what this client knows of the schema and the safepoint")
	lag := o.seconds("percolator.collection.lag", "How much longer than the retention the oldest garbage has been kept")
	holds := o.gauge("percolator.holds", "{hold}", "Holds that keep old versions from collection")
	cycles := o.counter("percolator.collection.cycles", "{cycle}", "Cycles of this client's collectors, by outcome")
	versions := o.counter("percolator.collection.versions", "{cell}", "Bigtable cells that this client's collectors removed")
	done, failed := labelled(attrOutcome, "done"), labelled(attrOutcome, "failed")
	begun := time.Now()
	return func(to metric.Observer) {
		m, asOf := c.meta.snapshot()
		to.ObserveFloat64(age, time.Since(asOf).Seconds())
		if now, ok := c.EstimatedTime(); ok {
			to.ObserveFloat64(lag, c.collectionLag(m, now, time.Since(begun)).Seconds())
			to.ObserveInt64(holds, m.holdsAt(now))
		}
		to.ObserveInt64(cycles, c.count.cycles.Load(), done)
		to.ObserveInt64(cycles, c.count.cyclesFailed.Load(), failed)
		to.ObserveInt64(versions, c.count.collected.Load())
	}
}

// collectionLag is how far the mark lies behind the retention. An instance that was never collected counts from when this client began,
// as nobody knows how old it is.
func (c *Client) collectionLag(m meta, now tso.Timestamp, running time.Duration) time.Duration {
	kept := running
	if m.mark > 0 {
		kept = now.Sub(m.mark)
	}
	return max(0, kept-c.cfg.Retention)
}

// holdsAt counts the holds that have not been released or expired.
func (m meta) holdsAt(now tso.Timestamp) (n int64) {
	for _, h := range m.holds {
		if h.Timestamp != released && h.Expires > now {
			n++
		}
	}
	return n
}

// snapshot is what is known without asking.
func (w *metaWatcher) snapshot() (m meta, asOf time.Time) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last, w.asOf
}

// EstimatedTime is the oracle's time as far as this process can tell without asking: the newest timestamp that the client has got, for
// whatever purpose, and the monotonic time since it was asked for. It is for ages that people look at, not for snapshots. ok is false before the first
// timestamp.
func (c *Client) EstimatedTime() (now tso.Timestamp, ok bool) {
	c.newest.mu.Lock()
	defer c.newest.mu.Unlock()
	if c.newest.ts == 0 {
		return 0, false
	}
	return c.newest.ts.Add(time.Since(c.newest.when)), true
}
