package observers

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	metrics "github.com/gopercolator/percolator/internal/engine/telemetry"
)

// registerMetrics exports Stats while the worker runs.
func (w *Worker) registerMetrics() (unregister func(), err error) {
	if w.telemetry.meter == nil {
		return func() {}, nil
	}
	o := &metrics.Gauges{Meter: w.telemetry.meter}
	registration, err := o.Register(w.runMetrics(o), w.findMetrics(o))
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

func (w *Worker) runMetrics(o *metrics.Gauges) func(metric.Observer) {
	runs := o.Counter("percolator.observer.runs", "{run}", "Turns of an observer, by outcome")
	retries := o.Counter("percolator.observer.retries", "{run}", "Calls of an observer after one that failed for the same change")
	parkings := o.Counter("percolator.observer.parked", "{cell}", "Times that this worker gave up on the observer of a cell")
	running := o.Gauge("percolator.observer.running", "{run}", "Runs under way")
	queued := o.Gauge("percolator.observer.queue.cells", "{cell}", "Cells of the observer's column that wait for their turn or their pause")
	return func(to metric.Observer) {
		sizes := w.queue.laneSizes(w.coverage)
		for _, l := range w.coverage.lanes {
			s, n := w.telemetry.series[l], l.counters.load()
			to.ObserveInt64(runs, n.Runs, s[outCommitted])
			to.ObserveInt64(runs, n.Acknowledged, s[outAcknowledged])
			to.ObserveInt64(runs, n.Snoozes, s[outSnoozed])
			to.ObserveInt64(runs, n.Conflicts, s[outConflict])
			to.ObserveInt64(runs, n.Panics, s[outPanic])
			to.ObserveInt64(runs, n.Errors, s[outError])
			to.ObserveInt64(retries, n.Retries, s[""])
			to.ObserveInt64(parkings, n.Parked, s[""])
			to.ObserveInt64(running, int64(sizes[l].running), s[""])
			to.ObserveInt64(queued, int64(sizes[l].queued), s[""])
		}
	}
}

func (w *Worker) findMetrics(o *metrics.Gauges) func(metric.Observer) {
	received := o.Counter("percolator.notifications.received", "{notification}", "Notifications taken up, by where they were heard of")
	dropped := o.Counter("percolator.notifications.dropped", "{notification}", "Notifications of the own client for which there was no room; the scan finds them, or the client by its journal")
	handed := o.Counter("percolator.notifications.handed_over", "{cell}", "Cells that this worker had too many of and others have taken, or itself, if it had asked before")
	age := o.Seconds("percolator.notifications.oldest.age", "Age of the oldest unprocessed notification that scanners or adopter have met, parked ones apart")
	parked := o.Gauge("percolator.notifications.parked", "{cell}", "Cells that only wait for a parked observer, as the scanners met them in their last round or the journal lists them")
	stuck := o.Seconds("percolator.lock.expired.age", "How long the oldest lock that scanners or adopter have met has been past its time to live")
	rounds := o.Counter("percolator.scan.rounds", "{round}", "Rounds of a scanner through all tables")
	rows := o.Counter("percolator.scan.rows", "{row}", "Dirty or locked rows that scanners read")
	teleports := o.Counter("percolator.scan.teleports", "{teleport}", "Times that a scanner met another one and went elsewhere")
	corrupt := o.Counter("percolator.scan.corrupt", "{cell}", "Cells that scanners could not decode, each time that they met them")
	source := func(name string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String(attrSource, name))
	}
	scan, dispatch, hint, handOver := source("scan"), source("dispatch"), source("hint"), source("handover")
	n := &w.counters
	return func(to metric.Observer) {
		to.ObserveInt64(received, n.found.Load(), scan)
		to.ObserveInt64(received, n.dispatched.Load(), dispatch)
		to.ObserveInt64(received, n.hinted.Load(), hint)
		to.ObserveInt64(received, n.received.Load(), handOver)
		to.ObserveInt64(handed, n.handedOver.Load())
		to.ObserveInt64(dropped, n.dropped.Load())
		seen := w.behind()
		to.ObserveFloat64(age, seen.notification.Seconds())
		to.ObserveInt64(parked, int64(seen.parked))
		to.ObserveFloat64(stuck, seen.lock.Seconds())
		to.ObserveInt64(rounds, n.scans.Searches.Load())
		to.ObserveInt64(rows, n.scans.Rows.Load())
		to.ObserveInt64(teleports, n.scans.Teleports.Load())
		to.ObserveInt64(corrupt, n.corrupt.Load())
	}
}

// laneSize is what an observer has in hand, in cells.
type laneSize struct{ queued, running int }

// laneSizes counts the runs of each observer, and the waiting cells of its column.
func (q *queue) laneSizes(cov *coverage) map[*lane]laneSize {
	q.mu.Lock()
	defer q.mu.Unlock()
	sizes := make(map[*lane]laneSize, len(cov.lanes))
	for _, col := range cov.taken {
		waiting := len(col.cells)
		for _, l := range col.lanes {
			waiting -= l.running
		}
		for _, l := range col.lanes {
			sizes[l] = laneSize{queued: waiting, running: l.active}
		}
	}
	return sizes
}
