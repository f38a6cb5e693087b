package measure

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// Transfers and sums count for the part in which they were due; what they cost, for the one in
// which they end. Every failure and every wrong sum is told.
func TestBadDaySeen(t *testing.T) {
	t.Parallel()
	started := time.Now()
	at := func(s float64) time.Time { return started.Add(time.Duration(s * float64(time.Second))) }
	overloaded := fmt.Errorf("refused: %w", percolator.ErrOverloaded)
	d := &badDay{b: &badDayBenchmark{Accounts: 2}, load: &transfers{done: []transfer{
		{due: at(9.9), ended: at(10.5)}, // of the part before
		{due: at(10), ended: at(10.1)},
		{due: at(11.9), ended: at(14)},
		{due: at(12.1), ended: at(12.4)}, // before it has settled
		{due: at(13.5), ended: at(13.7)},
		{due: at(13.6), ended: at(13.7), err: overloaded},
		{due: at(13.7), ended: at(13.8), err: overloaded},
		{due: at(14), ended: at(14.1)}, // of the part after
	}}, sums: sums{done: []sum{
		{due: at(10), ended: at(11), total: 2 * openingBalance},
		{due: at(11), ended: at(11.5), total: 2*openingBalance - 1},
		{due: at(14), ended: at(24), err: errors.New("of the part after")},
	}}}
	p := badDayPart{name: "x", fault: span{10 * time.Second, 12 * time.Second}, calm: span{12 * time.Second, 14 * time.Second}, sent: 12}
	s := d.seen(started, p)
	if s.rate != 1 || s.during.count() != 2 || s.after.count() != 3 || s.longest != 2100*time.Millisecond || s.sum != time.Second || s.cost != 3 {
		t.Errorf("%+v: %d in the fault, %d after", s, s.during.count(), s.after.count())
	}
	if s.err != overloaded || s.failed() != "1 sum: another error, 2 transfer: ErrOverloaded" {
		t.Errorf("%v, %v", s.failed(), s.err)
	}

	out := newRun("bad-day")
	faults := badDayFaults(d.b)
	p.name = faults[0].name
	quiet := badDayPart{name: "quiet", fault: span{0, 10 * time.Second}, calm: span{10 * time.Second, 10 * time.Second}}
	again := badDayPart{name: "quiet, again", fault: span{14 * time.Second, 15 * time.Second}}
	if failed := d.describe(out, started, []badDayPart{quiet, p, again}); len(failed) != 1 || !errors.Is(failed[0], percolator.ErrOverloaded) {
		t.Errorf("%v", failed)
	}
	row := out.Table("parts").Row(faults[0].name)
	if g := row.Figure("longest").Goal; g == nil || *g != (report.Goal{Wanted: 15, Met: true}) {
		t.Errorf("goal: %+v", g)
	}
	if g := row.Figure("p99 after").Goal; g == nil || g.Wanted != 1.5*600 || !g.Met { // before the silence it was 600 ms, after it 100
		t.Errorf("goal: %+v", g)
	}
	if text := row.Figure("failed").Text; text != s.failed() {
		t.Errorf("%s", text)
	}
}

// Locks, notifications and findings must not be left.
func TestBadDayLeft(t *testing.T) {
	t.Parallel()
	if err := left(&model.AuditReport{Rows: 9, Data: 9, Records: 9, Entries: 1}); err != nil {
		t.Error(err)
	}
	for _, r := range []model.AuditReport{{Locks: 1}, {Notifications: 1}, {Found: 1}} {
		if left(&r) == nil {
			t.Errorf("%+v is clean", r)
		}
	}
}

// Each kind of fault can be chosen alone, and the oracle is never away for as long as callers wait.
func TestBadDayFaults(t *testing.T) {
	t.Parallel()
	all, n := badDayFaults(&badDayBenchmark{Fault: time.Minute}), 0
	for _, kind := range []string{"silent", "reset", "goaway", "overload", "full", "slow", "away", "cpu", "surge", "oracle"} {
		some := badDayFaults(&badDayBenchmark{Only: []string{kind}, Fault: time.Minute})
		if n += len(some); len(some) == 0 {
			t.Errorf("no fault is %s", kind)
		}
		if kind == "oracle" && some[0].lasts != oracleMost {
			t.Errorf("the oracle is away for %v", some[0].lasts)
		}
	}
	if n != len(all) {
		t.Errorf("%d faults, %d of a kind", len(all), n)
	}
	var names []string
	for _, f := range badDayCourse(&badDayBenchmark{Only: []string{"silent", "oracle"}, Quiet: time.Minute, Calm: time.Second}) {
		names = append(names, fmt.Sprint(f.name, " ", f.calm))
	}
	want := []string{"quiet 0s", "one connection of ten silent 2m0s", "quiet, again 0s", "the oracle is unreachable 1s", "quiet, at the end 0s"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}
