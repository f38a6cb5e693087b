package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// evaluate describes the parts, waits for what is left to do, and judges everything.
func (d *badDay) evaluate(ctx context.Context, out *run, started time.Time, parts []badDayPart) {
	failed := d.describe(out, started, parts)
	out.failed = errors.Join(append(failed, d.audit(ctx, out.Table("audit")))...)
}

// audit says what is stuck, lost or wrong.
func (d *badDay) audit(ctx context.Context, table *report.Table) error {
	settled, err := d.drain(ctx)
	if err != nil {
		return err
	}
	table.Row("nothing left to do").Add("after the last transfer, s", settled.Seconds())
	audit, _, err := auditStore(ctx, d.client, d.load)
	if err != nil {
		return err
	}
	audit.into(table.Row("in one snapshot"))
	raw, err := d.auditRaw(ctx)
	if err != nil {
		return err
	}
	table.Row("raw tables").Add("rows", raw.Rows, "locks", raw.Locks, "notifications", raw.Notifications, "findings", raw.Found)
	return errors.Join(audit.err(), left(raw))
}

// drain waits until every observer has run, and stops the worker.
func (d *badDay) drain(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod)
	defer cancel()
	settled, err := timed(ctx, d.worker.WaitIdle)
	if err != nil {
		return 0, fmt.Errorf("observers are stuck: %w", err)
	}
	return settled, errors.Join(d.ends(), d.client.Flush(ctx))
}

// auditRaw audits the raw tables.
func (d *badDay) auditRaw(ctx context.Context) (*model.AuditReport, error) {
	bt := d.google(ctx)
	if d.err != nil {
		return nil, d.err
	}
	return percolatortest.Audit(ctx, bt, model.AuditConfig{
		Schema: fig10Schema(), Observers: map[[2]string][]string{{fig10Journal, entryColumn}: {journalObserver}},
	})
}

// left says what must not be left in the raw tables.
func left(r *model.AuditReport) error {
	if r.Found+r.Locks+r.Notifications > 0 {
		return fmt.Errorf("the raw tables are not clean: %s", r)
	}
	return nil
}

// describe adds a row for each part, and returns what failed.
func (d *badDay) describe(out *run, started time.Time, parts []badDayPart) (failed []error) {
	table := out.Table("parts")
	faults := badDayFaults(d.b)
	var all []*badDaySeen
	for _, p := range parts {
		all = append(all, d.seen(started, p))
	}
	var during, after report.Bars
	chart := report.Chart{Name: "bad-day", Title: "A bad day of the service: p99", Y: report.Axis{Label: "p99, ms"}}
	for i, p := range parts {
		seen := all[i]
		row := table.Row(p.name)
		var wanted badDayFault
		if i := slices.IndexFunc(faults, func(f badDayFault) bool { return f.name == p.name }); i >= 0 {
			wanted = faults[i]
		}
		before, next := all[max(i-1, 0)], all[min(i+1, len(all)-1)]
		seen.into(row, all[0], max(before.during.ms(99), next.during.ms(99)), wanted)
		if seen.err != nil {
			failed = append(failed, fmt.Errorf("%s: %s; one of them: %w", p.name, seen.failed(), seen.err))
		}
		chart.Categories = append(chart.Categories, p.name)
		during.Values, after.Values = append(during.Values, seen.during.ms(99)), append(after.Values, seen.after.ms(99))
	}
	during.Name, after.Name = "in the fault", "after it"
	chart.Bars = []report.Bars{during, after}
	out.Draw(chart)
	return failed
}

// badDaySeen is what the callers of a part saw.
type badDaySeen struct {
	part          badDayPart
	rate          float64   // transfers that were committed in the fault, a second
	during, after *recorder // latencies of transfers that were due in the fault, and in the second half of the calm
	longest, sum  time.Duration
	cost          float64        // requests for each transfer, all in all
	failures      map[string]int // by error
	err           error          // the first of them
}

// seen finds what the callers saw of a part. Who was due in it belongs to it.
func (d *badDay) seen(started time.Time, p badDayPart) *badDaySeen {
	s := &badDaySeen{part: p, during: new(recorder), after: new(recorder), failures: map[string]int{}}
	whole, settled := span{p.fault.from, p.calm.to}, span{(p.calm.from + p.calm.to) / 2, p.calm.to}
	within, committed := 0, 0
	for _, t := range d.load.results() {
		due, ended := t.due.Sub(started), t.ended.Sub(started)
		if t.err == nil && whole.has(ended) {
			within++
		}
		if t.err == nil && p.fault.has(ended) {
			committed++
		}
		if !whole.has(due) {
			continue
		}
		s.longest = max(s.longest, ended-due)
		if p.fault.has(due) {
			s.during.record(ended - due)
		}
		if settled.has(due) {
			s.after.record(ended - due)
		}
		if t.err != nil {
			s.fail("transfer", t.err)
		}
	}
	for _, t := range d.sums.results() {
		if !whole.has(t.due.Sub(started)) {
			continue
		}
		s.sum = max(s.sum, t.ended.Sub(t.due))
		switch right := int64(d.b.Accounts * openingBalance); {
		case t.err != nil:
			s.fail("sum", t.err)
		case t.total != right:
			s.fail("sum", fmt.Errorf("the balances add up to %d, not %d", t.total, right))
		}
	}
	s.rate, s.cost = float64(committed)/(p.fault.to-p.fault.from).Seconds(), float64(p.sent)/float64(max(within, 1))
	return s
}

// fail notes a failure: none is allowed, as every fault is shorter than what callers wait.
func (s *badDaySeen) fail(what string, err error) {
	s.failures[what+": "+sentinelOf(err)]++
	if s.err == nil {
		s.err = err
	}
}

// failed lists what failed.
func (s *badDaySeen) failed() string {
	list := []string{"none"}
	for i, kind := range slices.Sorted(maps.Keys(s.failures)) {
		list = append(list[:i], fmt.Sprintf("%d %s", s.failures[kind], kind))
	}
	return strings.Join(list, ", ")
}

// into adds the figures of a part to a row, with what is wanted of them. Beside it is the p99 of
// the parts before and after, in ms.
func (s *badDaySeen) into(row *report.Row, quiet *badDaySeen, beside float64, wanted badDayFault) {
	row.Add("committed, 1/s", s.rate, "p50, ms", s.during.ms(50), "p99, ms", s.during.ms(99), "longest, s", s.longest.Seconds())
	if wanted.longest > 0 {
		row.Want(report.Goal{Wanted: wanted.longest.Seconds()})
	}
	if s.after.count() > 0 {
		row.Add("p99 after, ms", s.after.ms(99))
	}
	if wanted.after > 0 {
		row.Want(report.Goal{Wanted: wanted.after * beside})
	}
	row.Add("longest sum, s", s.sum.Seconds(), "requests a transfer", s.cost, "of quiet", s.cost/quiet.cost)
	if wanted.cost > 0 {
		row.Want(report.Goal{Wanted: wanted.cost})
	}
	if wanted.kind == "overload" {
		row.Add("refused", s.part.refused)
	}
	row.Add("failed", s.failed())
}
