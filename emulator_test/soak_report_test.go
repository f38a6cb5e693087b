package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// tally adds up what clients and workers count.
type tally struct {
	mu          sync.Mutex
	Clients     int              `json:"clients"`
	Requests    map[string]int64 `json:"requests"`
	Forward     int64            `json:"cells_rolled_forward"`
	Back        int64            `json:"cells_rolled_back"`
	Late        int64            `json:"late_records"`
	Resolved    map[string]int   `json:"locks_resolved_again"`
	Runs        int64            `json:"observer_runs"`
	Conflicts   int64            `json:"observer_conflicts"`
	Cycles      int              `json:"collector_cycles"`
	Failed      int              `json:"collector_cycles_failed"`
	Removed     int64            `json:"versions_removed"`
	Tombstones  int64            `json:"tombstones_removed"`
	ByCollector int64            `json:"locks_resolved_by_collector"`
	Postponed   int64            `json:"cells_postponed"`

	safepoint tso.Timestamp // of the newest cycle
}

func (y *tally) add(st percolator.Stats) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.Requests == nil {
		y.Requests = map[string]int64{}
	}
	y.Clients++
	for k, n := range st.Requests {
		y.Requests[k] += n
	}
	y.Forward += st.RolledForward
	y.Back += st.RolledBack
	y.Late += st.LateRecords
}

func (y *tally) addWorker(st observers.Stats) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.Runs += st.Runs
	y.Conflicts += st.Conflicts
}

func (y *tally) resolved(r model.Resolution) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.Resolved == nil {
		y.Resolved = map[string]int{}
	}
	y.Resolved[r.String()]++
}

func (y *tally) collected(col admin.Collection, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case err != nil:
		y.Failed++
	case col.Safepoint != y.safepoint: // else there was nothing new to collect
		y.Cycles++
		y.safepoint = col.Safepoint
	}
	y.Removed += col.Versions
	y.Tombstones += col.Tombstones
	y.ByCollector += col.Locks
	y.Postponed += col.Postponed
}

// soakReport is what came out of a soak.
type soakReport struct {
	Seconds      float64                   `json:"seconds"`
	Seed         uint64                    `json:"seed"`
	Command      string                    `json:"command"`
	Transactions map[string]workload.Count `json:"transactions"`
	Faults       map[string]int            `json:"faults"`
	Work         *tally                    `json:"work"`
	History      *history.Report           `json:"history"`
	Audits       []*model.AuditReport      `json:"audits"`             // before and after the last collection
	Problems     []string                  `json:"problems,omitempty"` // that keep the soak from meaning what it should
	Check        time.Duration             `json:"check_ns"`
}

// Anomalies is the number of things that must not be.
func (r *soakReport) Anomalies() int {
	n := r.History.Found()
	for _, a := range r.Audits {
		n += a.Found
	}
	return n
}

func (r *soakReport) json() []byte {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // numbers and strings
	}
	return b
}

func sum(counts map[string]workload.Count) string {
	var all workload.Count
	for _, c := range counts {
		all.Committed += c.Committed
		all.Aborted += c.Aborted
		all.Unknown += c.Unknown
		all.Read += c.Read
	}
	return fmt.Sprintf("%d committed, %d aborted, %d unknown, %d snapshots read", all.Committed, all.Aborted, all.Unknown, all.Read)
}

// String is the report for people.
func (r *soakReport) String() string {
	var b strings.Builder
	y := r.Work
	fmt.Fprintf(&b, "soak of %v: %s\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), sum(r.Transactions))
	for _, k := range slices.Sorted(maps.Keys(r.Transactions)) {
		c := r.Transactions[k]
		if c.Committed+c.Unknown > 0 {
			fmt.Fprintf(&b, "  %-12s %7d committed %7d aborted %5d unknown\n", k, c.Committed, c.Aborted, c.Unknown)
		} else {
			fmt.Fprintf(&b, "  %-12s %7d read      %7d failed\n", k, c.Read, c.Aborted)
		}
	}
	fmt.Fprintf(&b, "faults:")
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, " %s %d;", k, r.Faults[k])
	}
	fmt.Fprintf(&b, "\nlock resolution: %d cells rolled forward, %d rolled back; locks from memory: %v\n", y.Forward, y.Back, y.Resolved)
	fmt.Fprintf(&b, "observers: %d runs committed, %d conflicts\n", y.Runs, y.Conflicts)
	fmt.Fprintf(&b, "collection: %d cycles, %d stopped; %d versions removed, %d tombstones removed, %d locks resolved, %d cells postponed, %d late records read\n",
		y.Cycles, y.Failed, y.Removed, y.Tombstones, y.ByCollector, y.Postponed, y.Late)
	fmt.Fprintf(&b, "%d clients, requests:", y.Clients)
	for _, k := range slices.Sorted(maps.Keys(y.Requests)) {
		fmt.Fprintf(&b, " %s %d;", k, y.Requests[k])
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\nproblem: %s", p)
	}
	fmt.Fprintf(&b, "\n%s", r.History)
	for _, a := range r.Audits {
		b.WriteString(a.String())
	}
	fmt.Fprintf(&b, "checked in %v\nagain: %s\n", r.Check.Round(time.Millisecond), r.Command)
	return b.String()
}

// finish lets the store come to rest and checks everything. The first collection meets what clients
// that died have left in cells that nobody has read since; the second has nothing left to say.
func (s *soaking) finish() *soakReport {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	s.env.Clock.Advance(10 * s.cfg.LockTTL)
	c := s.env.NewClient(percolatortest.Name("final"), s.configure())
	s.quiesce(ctx, c)
	audits := []*model.AuditReport{s.audit(ctx, c, false)}
	for range 2 {
		s.collectAll(ctx, c, audits[0].Repeated)
		s.resolveAgain(ctx, c)
		if err := s.work.Final(ctx, c, true); err != nil {
			s.problem("the final reads: %v", err)
		}
	}
	if err := c.Flush(ctx); err != nil {
		s.problem("%v", err)
	}
	s.tally.add(c.Stats())
	audits = append(audits, s.audit(ctx, c, true))
	started := time.Now()
	checked := history.Check(s.work.History, workload.Rules())
	return &soakReport{
		Problems: s.problems, Seed: s.cfg.Seed, Transactions: s.work.Counts(), Faults: s.faults.all(), Work: s.tally, History: checked, Audits: audits, Check: time.Since(started),
		Command: fmt.Sprintf("go test ./emulator_test -run 'TestSoak$' -timeout 60m -soak %v -soak.seed %d", s.cfg.Duration, s.cfg.Seed),
	}
}

// quiesce resolves all locks and waits until no observer has anything left to do.
func (s *soaking) quiesce(ctx context.Context, c *percolator.Client) {
	w, err := observers.NewWorker(c, s.work.Observers("final worker", c), observers.Config{DisableCollection: true, MaxBackoff: 200 * time.Millisecond})
	if err != nil {
		s.Fatal(err)
	}
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(wctx) }()
	idle, cancel := context.WithTimeout(ctx, s.cfg.Idle)
	defer cancel()
	if err := w.WaitIdle(idle); err != nil {
		s.problem("the observers do not come to rest: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		s.problem("%v", err)
	}
	s.tally.addWorker(w.Stats())
}

// audit audits the raw tables, and adds what they hold to the history. A marker at or below the
// watermark says nothing: who asks about a lock long after its transaction was collected may leave
// one.
func (s *soaking) audit(ctx context.Context, c *percolator.Client, collected bool) *model.AuditReport {
	var seen []model.AuditedRecord
	report, err := percolatortest.Audit(ctx, s.env.Store(), model.AuditConfig{
		Schema: c.Schema(), Collected: collected,
		Observers: workload.Observed(),
		Visit:     func(r model.AuditedRecord) { seen = append(seen, r) },
	})
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range seen {
		if marker := r.Kind == 'R'; !marker || r.Start > report.GCWatermark {
			s.work.History.Found(history.Record{Cell: history.Cell(r.Cell), Start: r.Start, Commit: r.Commit, Marker: marker})
		}
	}
	return report
}
