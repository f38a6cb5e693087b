package engine

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// journalMetrics tell how far behind the journal is. A client speaks of its own streams, and of
// those of dead clients while it adopts them, so the sum and the maximum over all processes speak
// of the whole journal.
func (e *Engine) journalMetrics(o *telemetry.Gauges) func(metric.Observer) {
	appends := o.Counter("percolator.journal.appends", "{row}", "Rows that were appended to the journal, by outcome")
	hedges := o.Counter("percolator.journal.hedges", "{row}", "Rows without an answer whose entries were appended to another stream too")
	looks := o.Counter("percolator.journal.looks", "{look}", "Looks at rows that unsettled entries name")
	looked := o.Counter("percolator.journal.looked", "{row}", "Rows that were looked at because unsettled entries name them")
	found := o.Counter("percolator.journal.missed", "{row}", "Unfinished work that the journal should have led to before, by who found it")
	streams := o.Gauge("percolator.journal.streams", "{stream}", "Streams of the journal, as far as this client adopts them")
	unsettled := o.Gauge("percolator.journal.unsettled", "{row}", "Rows of the journal with unsettled entries: in this client's streams, and in those that it adopts")
	behind := o.Gauge("percolator.journal.behind", "{row}", "Rows from the low positions of this client's streams on, settled or not")
	oldest := o.Seconds("percolator.journal.oldest.age", "Age of the oldest unsettled entry in this client's streams, and in those that it adopts")
	notified := o.Seconds("percolator.journal.notified.age", "Age of the oldest unprocessed notification that looks at this client's own entries have found")
	expired := o.Seconds("percolator.journal.expired.age", "How long the oldest lock that looks at this client's own entries could not resolve has been past its time to live")
	turns := o.Counter("percolator.journal.turns", "{turn}", "Turns of the worker that adopts streams, by outcome")
	corrupt := o.Counter("percolator.journal.corrupt", "{cell}", "Cells that looks could not decode, each time that they met them")
	acknowledged, failed := labelled(telemetry.AttrOutcome, "acknowledged"), labelled(telemetry.AttrOutcome, "failed")
	done := labelled(telemetry.AttrOutcome, "done")
	byCollector, bySweep := labelled(telemetry.AttrOutcome, "collector"), labelled(telemetry.AttrOutcome, "sweep")
	n := e.Store.Count
	return func(to metric.Observer) {
		to.ObserveInt64(appends, n.Appends.Load(), acknowledged)
		to.ObserveInt64(appends, n.AppendsFailed.Load(), failed)
		to.ObserveInt64(hedges, n.Hedges.Load())
		to.ObserveInt64(looks, n.Looks.Load())
		to.ObserveInt64(looked, n.RowsLooked.Load())
		to.ObserveInt64(found, n.FoundByCollector.Load(), byCollector)
		to.ObserveInt64(found, n.FoundBySweep.Load(), bySweep)
		to.ObserveInt64(streams, n.Streams.Load())
		own := e.Journal.Own.Unsettled()
		to.ObserveInt64(unsettled, int64(own.Rows)+n.Adopted.Load())
		to.ObserveInt64(behind, int64(own.Behind))
		to.ObserveFloat64(oldest, e.ageOf(own.Oldest, tso.Timestamp(n.AdoptedOldest.Load())))
		to.ObserveFloat64(notified, e.ageOf(own.Notified))
		to.ObserveFloat64(expired, e.ageOf(own.Expired))
		to.ObserveInt64(turns, n.Turns.Load(), done)
		to.ObserveInt64(turns, n.TurnsFailed.Load(), failed)
		to.ObserveInt64(corrupt, n.Undecodable.Load())
	}
}

// ageOf is how many seconds ago the earliest of some timestamps was, as far as the client can tell;
// 0: all are, or it lies ahead.
func (e *Engine) ageOf(timestamps ...tso.Timestamp) (age float64) {
	now, ok := e.Clock.EstimatedTime()
	for _, ts := range timestamps {
		if ok && ts != 0 {
			age = max(age, now.Sub(ts).Seconds())
		}
	}
	return age
}
