package membership

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

const (
	reportTimeout    = 5 * time.Second
	minReportTimeout = time.Second
	removeTimeout    = 2 * time.Second
)

// Run stores a report every interval, the first one after the pause, until ctx ends; then it
// removes the report. tell returns what to report; false: nothing now, and what was stored goes.
func (r *Reporter) Run(ctx context.Context, pause time.Duration, tell func() (model.WorkerReport, bool)) {
	log := r.e.Config.Logger
	keepReporting(ctx, r.interval, pause, func(within context.Context) error {
		w, ok := tell()
		if !ok {
			return r.Remove(within)
		}
		err := r.Store(within, w)
		if err != nil && ctx.Err() == nil {
			log.Debug("a report was not stored", "err", err)
		}
		return err
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := r.Remove(ctx); err != nil {
		log.Debug("the report was not removed, and expires", "err", err)
	}
}

// keepReporting calls store every interval, or up to a fifth sooner: processes started together
// should not write together. One that gets no answer does not put the next one off, so two in a row
// do not make the process look dead. While others fill the list, the next try waits for
// MaxReportInterval, because each reads the list.
func keepReporting(ctx context.Context, interval, pause time.Duration, store func(ctx context.Context) error) {
	for retry.Sleep(ctx, pause) == nil {
		started := time.Now()
		within, cancel := context.WithTimeout(ctx, min(reportTimeout, max(interval*3/5, minReportTimeout)))
		err := store(within)
		cancel()
		pause = interval - rand.N(interval/5+1) - time.Since(started)
		if errors.Is(err, model.ErrTooLarge) {
			pause = MaxReportInterval
		}
	}
}

// ReportClient reports what a client has counted until ctx ends, unless one of its workers does. It
// begins after half an interval, so that short-lived processes write nothing.
func ReportClient(ctx context.Context, e *engine.Engine) {
	r, err := NewReporter(e, e.ID, ReportInterval)
	if err != nil {
		telemetry.Warn(e.Config.Logger, "this client does not report", err)
		return
	}
	r.Run(ctx, ReportInterval/2+rand.N(ReportInterval/10), func() (model.WorkerReport, bool) {
		last := e.WorkerReported.Load()
		return model.WorkerReport{}, last == nil || time.Since(*last) > 2*ReportInterval
	})
}
