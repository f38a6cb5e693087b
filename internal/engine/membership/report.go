package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Every client stores a small report now and then, or its workers do in its place. A reader that
// looks after the cluster sees all of it with one read, without addresses and without a metrics
// system. At 1,000 clients that is 100 unconditional writes a second to one row.
//
// Times are the oracle's, so no two machines' clocks are compared. The reporter estimates them from
// the last timestamp that its client got: a report costs no request to the oracle, unless the
// client has not asked for anything within reportStampAge.
var reports = registry{row: "reports", prefix: "report:", limit: 2 * model.MaxReports}

// Limits of reports.
const (
	// MaxReportBytes is the size of a report as it is stored. It omits columns, contended cells and
	// observers that have no room.
	MaxReportBytes = maxEntryBytes
	// ReportInterval is the time between two reports, unless the reporter says otherwise.
	ReportInterval = 10 * time.Second
	// MaxReportInterval is the longest time between two reports.
	MaxReportInterval = 10 * time.Minute

	reportLeases   = 3  // a process that misses so many reports is taken for dead
	reportsPruned  = 64 // reports between two looks for dead processes; more, if more report
	reportStampAge = time.Minute
	reportGrace    = 5 * time.Second // for slow requests and inexact oracle time
)

// Reporter stores the reports of one worker or client. One goroutine uses it.
type Reporter struct {
	e        *engine.Engine
	report   model.Report
	interval time.Duration
	stored   int // times
	others   int // that reported when it looked last
}

// NewReporter returns the reporter of a worker of that name, 1 to 64 bytes of UTF-8, which is
// unique among all processes. The caller stores a report every interval, which is at most
// MaxReportInterval. ErrInvalidArgument: the name or the interval.
func NewReporter(e *engine.Engine, name string, interval time.Duration) (*Reporter, error) {
	if !validName(name) {
		return nil, fmt.Errorf("percolator: %w: the name of a report has 1 to 64 bytes of UTF-8, got %.80q", model.ErrInvalidArgument, name)
	}
	if interval <= 0 || interval > MaxReportInterval {
		return nil, fmt.Errorf("percolator: %w: reports every %v, which is not between 0 and %v", model.ErrInvalidArgument, interval, MaxReportInterval)
	}
	return &Reporter{e: e, interval: interval, report: newReport(e, name)}, nil
}

func newReport(e *engine.Engine, name string) model.Report {
	host, _ := os.Hostname() // "" is shown as it is
	return model.Report{Name: name, Client: e.ID, Host: text.Beginning(host, 128), PID: os.Getpid(), Version: ModuleVersion()}
}

// OwnReport is what a client would report now, by itself or by the worker of that name. It asks
// no one: where the oracle's time is not known, this machine's stands for it.
func OwnReport(e *engine.Engine, name string, w model.WorkerReport) model.Report {
	r := newReport(e, name)
	r.Stats, r.Uptime, r.Worker = e.Stats(), time.Since(e.Began), w
	var known bool
	if r.Written, known = e.Clock.EstimatedTime(); !known {
		r.Written = tso.At(time.Now())
	}
	r.Started = r.Written.Add(-r.Uptime)
	return r
}

// Store replaces the stored report. It costs one unconditional write, and now and then a read and
// the removal of reports of dead processes. ErrTooLarge: MaxReports others report already.
func (r *Reporter) Store(ctx context.Context, w model.WorkerReport) error {
	now, err := reportTime(ctx, r.e)
	if err != nil {
		return err
	}
	if r.stored%max(reportsPruned, r.others) == 0 {
		if err := r.makeRoom(ctx, now); err != nil {
			return err
		}
	}
	if r.report.Started == 0 {
		r.report.Started = now.Add(-time.Since(r.e.Began))
	}
	r.report.Session = r.e.Locks.Sessions.Own()
	r.report.Written, r.report.Expires = now, now.Add(reportLeases*r.interval+reportGrace)
	r.report.Stats, r.report.Uptime, r.report.Worker = r.e.Stats(), time.Since(r.e.Began), w
	b, err := encodeReport(r.report)
	if err != nil {
		return err
	}
	if err := reports.write(ctx, r.e, r.report.Name, b); err != nil {
		return err
	}
	r.stored++
	if r.report.HasWorker() && r.interval <= ReportInterval {
		r.e.WorkerReported.Store(new(time.Now()))
	}
	return nil
}

// Remove takes the report out of the list before it expires.
func (r *Reporter) Remove(ctx context.Context) error {
	if r.stored == 0 {
		return nil
	}
	r.stored = 0
	return reports.remove(ctx, r.e, r.report.Name)
}

// makeRoom removes some reports of dead processes.
func (r *Reporter) makeRoom(ctx context.Context, now tso.Timestamp) error {
	stored, err := readReports(ctx, r.e)
	if err != nil {
		return err
	}
	r.others = 0
	dead := map[string][]byte{}
	for _, item := range stored {
		var o struct { // all of a report that matters here: to decode the rest costs far more
			Expires tso.Timestamp `json:"expires"`
		}
		switch name, ok := reports.decode(item.Column, item.Value, &o); {
		case !ok || !lives(o.Expires, now):
			dead[item.Column] = item.Value
		case name != r.report.Name:
			r.others++
		}
	}
	if err := reports.prune(ctx, r.e, dead); err != nil {
		return err
	}
	most := model.MaxReports
	if !r.report.HasWorker() {
		most -= model.MaxWorkers
	}
	if r.others >= most {
		return fmt.Errorf("percolator: %w: %d clients and workers report already", model.ErrTooLarge, r.others)
	}
	return nil
}

// Reports lists the reports of live clients and workers, by host and process, at most MaxReports:
// those that have not expired and whose session has not ended, as far as the oracle says. It costs
// one read, one question to an oracle that keeps sessions, and a timestamp if the client has not
// got any lately. It omits what it cannot decode.
func Reports(ctx context.Context, e *engine.Engine) ([]model.Report, error) {
	stored, err := readReports(ctx, e)
	if err != nil {
		return nil, err
	}
	now, err := reportTime(ctx, e)
	if err != nil {
		return nil, err
	}
	live := liveReports(stored, now)
	ended := endedSessions(ctx, e, live, func(r model.Report) string { return r.Session })
	live = slices.DeleteFunc(live, func(r model.Report) bool { return ended[r.Session] })
	slices.SortFunc(live, func(a, b model.Report) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), strings.Compare(a.Name, b.Name))
	})
	return live[:min(len(live), model.MaxReports)], nil
}

func readReports(ctx context.Context, e *engine.Engine) ([]layout.Item, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	return reports.read(ctx, e, reports.prefix)
}

// liveReports are the reports that count.
func liveReports(stored []layout.Item, now tso.Timestamp) []model.Report {
	live := make([]model.Report, 0, len(stored))
	for _, item := range stored {
		var r model.Report
		name, ok := reports.decode(item.Column, item.Value, &r)
		if r.Name = name; ok && lives(r.Expires, now) {
			live = append(live, r)
		}
	}
	return live
}

// reportTime is the oracle's time, estimated if the client has asked lately.
func reportTime(ctx context.Context, e *engine.Engine) (tso.Timestamp, error) {
	if _, lately := e.Clock.NewestWithin(reportStampAge); lately {
		now, _ := e.Clock.EstimatedTime()
		return now, nil
	}
	return e.Clock.Next(ctx)
}

// lives tells whether a report that expires then still counts. One from far in the future does not.
func lives(expires, now tso.Timestamp) bool {
	return expires > now && expires.Sub(now) <= reportLeases*MaxReportInterval+2*reportGrace
}

// encodeReport leaves out the columns, and then as many observers as it must, the quietest first.
func encodeReport(r model.Report) ([]byte, error) {
	r.Worker.LeftOut = 0
	if b, err := json.Marshal(r); err == nil && len(b) <= MaxReportBytes {
		return b, nil
	}
	for _, omit := range []func(){
		func() { r.Stats.Contention.Cells = r.Stats.Contention.Cells[:min(3, len(r.Stats.Contention.Cells))] },
		func() { r.Stats.Contention.Cells = nil },
		func() { r.Worker.Takes = nil },
	} {
		if b, err := json.Marshal(r); err == nil && len(b) > MaxReportBytes {
			omit()
		}
	}
	names := slices.SortedFunc(maps.Keys(r.Worker.Observers), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Worker.Observers[b].Attempts, r.Worker.Observers[a].Attempts), strings.Compare(a, b))
	})
	all := r.Worker.Observers
	for kept := len(names); ; kept = kept * 3 / 4 {
		r.Worker.LeftOut = len(names) - kept
		r.Worker.Observers = make(map[string]model.ObserverReport, kept)
		for _, name := range names[:kept] {
			r.Worker.Observers[name] = all[name]
		}
		b, err := json.Marshal(r)
		switch {
		case err != nil:
			return nil, fmt.Errorf("percolator: %w: a report: %w", model.ErrInvalidArgument, err)
		case len(b) <= MaxReportBytes:
			return b, nil
		case kept == 0:
			return nil, fmt.Errorf("percolator: %w: a report of %d bytes", model.ErrTooLarge, len(b))
		}
	}
}
