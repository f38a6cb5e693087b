package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// Every process with a worker stores a small report now and then, so that one that looks after the
// cluster sees all of it with one read, without knowing addresses and without a metrics system.
// Each process writes a cell of its own in the row "reports" of percolator_meta, unconditionally.
// Nothing that must be correct depends on it.
//
// Times are the oracle's, so that no two machines' clocks are compared. They are estimated from the
// last timestamp that the client got: a report costs no request to the oracle, unless the client
// has not asked for anything within reportStampAge.
const (
	reportsRow   = "reports"
	reportPrefix = "report:"
)

// Limits of reports.
const (
	// MaxReports is how many processes report. As they are counted first and stored afterwards, those
	// that begin at the same time may exceed it.
	MaxReports = 256
	// MaxReportBytes is the size of a report as it is stored. Observers that have no room are left out
	// of it.
	MaxReportBytes = 4096
	// MaxReportInterval is how seldom a process may report.
	MaxReportInterval = 10 * time.Minute

	reportLeases   = 3  // intervals after which a process that does not report is taken for dead
	reportsPruned  = 64 // how many reports a process writes until it looks for those of dead ones again
	reportStampAge = time.Minute
	reportGrace    = 5 * time.Second // for estimates of the oracle's time that differ, and requests that take long
	maxReportCells = 2 * MaxReports  // what is read of the row
)

// Report is what a process with a worker tells those who look after the cluster.
type Report struct {
	Name    string        `json:"-"` // At most 64 bytes; that of the worker in Client.Workers, if it is listed there
	Host    string        `json:"host,omitempty"`
	PID     int           `json:"pid,omitempty"`
	Version string        `json:"version,omitempty"` // of this module, as built
	Started tso.Timestamp `json:"started"`           // when it reported first
	Written tso.Timestamp `json:"written"`
	Expires tso.Timestamp `json:"expires"` // it is taken for dead then, unless it reports again

	Stats  telemetry.Stats `json:"stats"`  // of its client, since NewClient
	Worker WorkerReport    `json:"worker"` // since NewWorker
}

// WorkerReport is what package observers counts in one worker (observers.Stats).
type WorkerReport struct {
	ObserverReport       // of all observers together
	Found          int64 `json:"found"`      // notifications that scans found
	Dispatched     int64 `json:"dispatched"` // that the own client wrote
	Hinted         int64 `json:"hinted"`     // that other processes hinted at
	Dropped        int64 `json:"dropped"`    // for which there was no room
	Searches       int64 `json:"searches"`   // rounds of its scanners
	Parked         int64 `json:"parked"`     // times that an observer of a cell was given up on
	Queued         int   `json:"queued"`     // cells, now
	Running        int   `json:"running"`    // cells, now

	// BacklogMillis is the age of the oldest notification that its scanners met in their last round,
	// apart from parked ones; LockMillis that of the oldest lock past its time to live.
	BacklogMillis int64 `json:"backlogMillis"`
	LockMillis    int64 `json:"lockMillis"`

	Observers map[string]ObserverReport `json:"observers,omitempty"` // by name
	LeftOut   int                       `json:"leftOut,omitempty"`   // observers for which there was no room

	// Takes are the columns that the worker takes, and Columns names the set, as in WorkerInfo; nil
	// where there was no room.
	Takes   map[string][][]byte `json:"takes,omitempty"`
	Columns string              `json:"columns,omitempty"`
}

// ObserverReport counts the runs of one observer (observers.ObserverStats).
type ObserverReport struct {
	Runs      int64 `json:"runs"` // that committed
	Attempts  int64 `json:"attempts"`
	Retries   int64 `json:"retries,omitempty"`
	Conflicts int64 `json:"conflicts,omitempty"`
	Errors    int64 `json:"errors,omitempty"`
	Panics    int64 `json:"panics,omitempty"`
}

// Reporter stores the reports of one process. It is used by one goroutine.
type Reporter struct {
	c        *engine.Engine
	report   Report
	interval time.Duration
	stored   int // times
}

// NewReporter returns one for the process's worker of that name, 1 to 64 bytes of UTF-8, which is
// unique among all processes. interval, at most MaxReportInterval, is how often it is going to
// report.
func NewReporter(e *engine.Engine, name string, interval time.Duration) (*Reporter, error) {
	if name == "" || len(name) > 64 || !utf8.ValidString(name) {
		return nil, fmt.Errorf("percolator: %w: the name of a report has 1 to 64 bytes of UTF-8, got %.80q", model.ErrInvalidArgument, name)
	}
	if interval <= 0 || interval > MaxReportInterval {
		return nil, fmt.Errorf("percolator: %w: reports every %v, which is not between 0 and %v", model.ErrInvalidArgument, interval, MaxReportInterval)
	}
	host, _ := os.Hostname() // "" is shown as it is
	return &Reporter{c: e, interval: interval, report: Report{
		Name: name, Host: host[:min(len(host), 128)], PID: os.Getpid(), Version: moduleVersion(),
	}}, nil
}

// Store replaces the stored report. It costs one unconditional write, and now and then a read and
// the removal of reports of dead processes. ErrTooLarge: MaxReports processes report already.
func (p *Reporter) Store(ctx context.Context, w WorkerReport) error {
	now, err := reportTime(ctx, p.c)
	if err != nil {
		return err
	}
	if p.stored%reportsPruned == 0 {
		if err := p.makeRoom(ctx, now); err != nil {
			return err
		}
	}
	if p.report.Started == 0 {
		p.report.Started = now
	}
	p.report.Written, p.report.Expires = now, now.Add(reportLeases*p.interval+reportGrace)
	p.report.Stats, p.report.Worker = p.c.Store.Count.Read(), w
	b, err := p.report.encode()
	if err != nil {
		return err
	}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, reportPrefix+p.report.Name, store.MetaTimestamp, b)
	if err := changeReports(ctx, p.c, mut); err != nil {
		return err
	}
	p.stored++
	return nil
}

// Remove takes the report out of the list before it expires.
func (p *Reporter) Remove(ctx context.Context) error {
	if p.stored == 0 {
		return nil
	}
	mut := store.NewMutation(2)
	mut.EraseColumn(layout.MetaFamily, reportPrefix+p.report.Name)
	return changeReports(ctx, p.c, mut)
}

// makeRoom removes some reports of dead processes.
func (p *Reporter) makeRoom(ctx context.Context, now tso.Timestamp) error {
	seen, err := readReports(ctx, p.c)
	if err != nil {
		return err
	}
	live, removed := 0, 0
	for _, column := range slices.Sorted(maps.Keys(seen)) {
		r, ok := decodeReport(column, seen[column])
		switch {
		case ok && r.lives(now):
			if r.Name != p.report.Name {
				live++
			}
		case removed < removedAtOnce:
			removed++
			if _, err := p.c.Store.CompareAndSet(ctx, reportsRow, column, seen[column], nil); err != nil {
				return err
			}
		}
	}
	if live >= MaxReports {
		return fmt.Errorf("percolator: %w: %d processes report already", model.ErrTooLarge, live)
	}
	return nil
}

// Reports lists the reports of the processes that live, by host and process, at most MaxReports. It
// costs one read, and a timestamp if the client has not got any lately. What cannot be decoded is
// passed over.
func Reports(ctx context.Context, e *engine.Engine) ([]Report, error) {
	seen, err := readReports(ctx, e)
	if err != nil {
		return nil, err
	}
	now, err := reportTime(ctx, e)
	if err != nil {
		return nil, err
	}
	live := make([]Report, 0, len(seen))
	for column, b := range seen {
		if r, ok := decodeReport(column, b); ok && r.lives(now) {
			live = append(live, r)
		}
	}
	slices.SortFunc(live, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), strings.Compare(a.Name, b.Name))
	})
	return live[:min(len(live), MaxReports)], nil
}

// readReports returns what is stored, by column.
func readReports(ctx context.Context, e *engine.Engine) (map[string][]byte, error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	row, err := e.Store.ReadRow(ctx, model.MetaTable, reportsRow, store.Cells(reportPrefix, maxReportCells))
	if err != nil {
		return nil, err
	}
	seen := make(map[string][]byte, len(row.Of(layout.MetaFamily)))
	for _, item := range row.Of(layout.MetaFamily) {
		seen[item.Column] = item.Value
	}
	return seen, nil
}

func changeReports(ctx context.Context, e *engine.Engine, mut *store.Mutation) error {
	return e.Store.Mutate(ctx, model.MetaTable, reportsRow, mut)
}

// reportTime is the oracle's time, estimated if the client has asked lately.
func reportTime(ctx context.Context, e *engine.Engine) (tso.Timestamp, error) {
	if _, lately := e.Clock.Newest.Within(reportStampAge); lately {
		now, _ := e.Clock.EstimatedTime()
		return now, nil
	}
	return e.Clock.Next(ctx)
}

// lives tells whether a report still counts. One that claims to be from far in the future is
// nobody's.
func (r Report) lives(now tso.Timestamp) bool {
	return r.Expires > now && r.Expires.Sub(now) <= reportLeases*MaxReportInterval+2*reportGrace
}

// encode leaves out the columns, and then as many observers as it must, the quietest first.
func (r Report) encode() ([]byte, error) {
	if b, err := json.Marshal(r); err == nil && len(b) > MaxReportBytes {
		r.Worker.Takes = nil
	}
	names := slices.SortedFunc(maps.Keys(r.Worker.Observers), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Worker.Observers[b].Attempts, r.Worker.Observers[a].Attempts), strings.Compare(a, b))
	})
	all := r.Worker.Observers
	for kept := len(names); ; kept = kept * 3 / 4 {
		r.Worker.LeftOut = len(names) - kept
		r.Worker.Observers = make(map[string]ObserverReport, kept)
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

func decodeReport(column string, b []byte) (r Report, ok bool) {
	name := strings.TrimPrefix(column, reportPrefix)
	if name == column || name == "" || len(name) > 64 || !utf8.ValidString(name) || len(b) > MaxReportBytes || json.Unmarshal(b, &r) != nil {
		return Report{}, false
	}
	r.Name = name
	return r, true
}

// modulePath is this module's, in the build information of a program.
const modulePath = "github.com/gopercolator/percolator"

// moduleVersion is the version of this module that the program was built with.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath {
				return m.Version[:min(len(m.Version), 128)]
			}
		}
	}
	return ""
}
