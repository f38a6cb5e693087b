package measure

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// at makes moments of milliseconds since started.
func at(started time.Time, ms ...int) (out []time.Time) {
	for _, m := range ms {
		out = append(out, started.Add(time.Duration(m)*time.Millisecond))
	}
	return out
}

func TestFig10Series(t *testing.T) {
	t.Parallel()
	started := time.Unix(1000, 0)
	got := seriesOf(started, 350*time.Millisecond, 100*time.Millisecond, fig10Moments{
		commits: at(started, -50, 10, 20, 110, 299, 340), // the last one is in a bucket that is not full
		untold:  at(started, 120),
		runs:    at(started, -20, 15, 115, 210, 220, 250),
	})
	want := []fig10Bucket{{0, 20, 10, 1}, {0.1, 10, 10, 2}, {0.2, 10, 30, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// bucketsOf makes buckets of 100 ms with these rates and backlogs.
func bucketsOf(rates ...float64) (out []fig10Bucket) {
	for i, r := range rates {
		out = append(out, fig10Bucket{at: float64(i) / 10, commits: r, backlog: int(r)})
	}
	return out
}

func commitsOf(b fig10Bucket) float64 { return b.commits }

func TestFig10Dip(t *testing.T) {
	t.Parallel()
	const width = 100 * time.Millisecond
	steady, fault, end := span{0, 3 * width}, span{3 * width, 5 * width}, 13*width
	all := bucketsOf(90, 100, 110, 40, 20, 30, 95, 85, 85, 96, 94, 5, 100)
	d := dipOf(all, width, steady, fault, end, commitsOf)
	// 95, 85, 85 and 96 are 90.25 on the mean. What comes later, the bucket of 5, is no longer this
	// fault's.
	if d.before != 100 || d.during != 30 || d.lowest != 20 || d.recovery == nil || *d.recovery < 0.099 || *d.recovery > 0.101 {
		t.Errorf("%+v", d)
	}
	// What was held up comes all at once: before it there is nothing.
	d = dipOf(bucketsOf(100, 100, 100, 0, 0, 0, 0, 700, 100, 100, 100), width, steady, fault, 11*width, commitsOf)
	if d.recovery == nil || *d.recovery < 0.199 || *d.recovery > 0.201 || d.lowest != 0 {
		t.Errorf("with a surge: %+v, recovery %v", d, d.recovery)
	}
	d = dipOf(bucketsOf(100, 100, 100, 50, 50, 50, 89, 89, 89, 89, 89), width, steady, fault, 11*width, commitsOf)
	if d.recovery != nil || d.lowest != 50 {
		t.Errorf("recovered, with the rate at 89 %%: %+v", d)
	}
	d = dipOf(bucketsOf(100, 100), width, steady, fault, end, commitsOf) // nothing was watched after the fault
	if d.recovery != nil || d.lowest != 0 {
		t.Errorf("%+v", d)
	}
}

func TestFig10Backlog(t *testing.T) {
	t.Parallel()
	const width = 100 * time.Millisecond
	all := bucketsOf(3, 5, 4, 40, 80, 60, 5, 6, 4, 5, 5, 3)
	l := backlogOf(all, width, span{0, 3 * width}, span{3 * width, 4 * width}, 12*width)
	if l.before != 5 || l.normal != 5 || l.most != 80 || l.recovery == nil || *l.recovery < 0.499 || *l.recovery > 0.501 {
		t.Errorf("%+v, recovery %v", l, l.recovery)
	}
	l = backlogOf(all[:9], width, span{0, 3 * width}, span{3 * width, 4 * width}, 9*width)
	if l.recovery != nil {
		t.Errorf("recovered without having stayed so: %v", *l.recovery)
	}
	l = backlogOf(bucketsOf(100, 100), width, span{0, width}, span{width, width}, 2*width)
	if l.normal != 100 {
		t.Errorf("normal: %+v", l)
	}
}

func TestFig10Gap(t *testing.T) {
	t.Parallel()
	started := time.Unix(1000, 0)
	moments := at(started, 5, 110, 120, 180, 300)
	for _, c := range []struct{ from, to, want int }{{100, 200, 60}, {100, 400, 120}, {310, 400, 90}, {0, 100, 95}, {115, 130, 10}} {
		got := longestGap(started, moments, span{time.Duration(c.from) * time.Millisecond, time.Duration(c.to) * time.Millisecond})
		if got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d ms: %v, not %d ms", c.from, c.to, got, c.want)
		}
	}
}

// Each thing that can be wrong is found, and nothing where all is well.
func TestFig10Audit(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("%w: %w", percolator.ErrOutcomeUnknown, context.DeadlineExceeded)
	type state struct {
		results  []transfer
		entries  map[int64]journalEntry
		accounts []account
	}
	good := func() state {
		return state{
			results: []transfer{{id: 1, from: 0, to: 1, amount: 7}, {id: 2, from: 1, to: 2, amount: 3, err: unknown},
				{id: 3, from: 0, to: 2, amount: 1, err: unknown},
				{id: 4, from: 0, to: 1, amount: 2, err: percolator.ErrConflict}},
			entries: map[int64]journalEntry{1: {text: "0 1 7", runs: runs{N: 1}}, 2: {text: "1 2 3", runs: runs{N: 1}}},
			accounts: []account{{balance: openingBalance - 7, count: 1}, {balance: openingBalance + 4, count: 2},
				{balance: openingBalance + 3, count: 1}},
		}
	}
	s := good()
	a := auditOf(s.results, s.entries, s.accounts)
	if err := a.err(); err != nil || a[auditAcknowledged] != 1 || a[auditUnknown] != 2 || a[auditCommitted] != 1 || a[auditFailed] != 1 || a[auditEntries] != 2 ||
		a[auditOpening] != 3*openingBalance {
		t.Errorf("%+v: %v", a, err)
	}
	for name, c := range map[string]struct {
		damage func(*state)
		found  func(fig10Audit) int64
	}{
		"a lost transfer": {func(s *state) { delete(s.entries, 1) }, func(a fig10Audit) int64 { return a[auditMissing] }},
		"a failed one that is there": {func(s *state) { s.entries[4] = journalEntry{text: "0 1 2", runs: runs{N: 1}} },
			func(a fig10Audit) int64 { return a[auditUnfailed] }},
		"an entry of nobody": {func(s *state) { s.entries[9] = journalEntry{text: "0 1 2", runs: runs{N: 1}} }, func(a fig10Audit) int64 { return a[auditAltered] }},
		"another text":       {func(s *state) { s.entries[1] = journalEntry{text: "0 1 8", runs: runs{N: 1}} }, func(a fig10Audit) int64 { return a[auditAltered] }},
		"no run":             {func(s *state) { s.entries[1] = journalEntry{text: "0 1 7"} }, func(a fig10Audit) int64 { return a[auditNotRun] }},
		"two runs":           {func(s *state) { s.entries[1] = journalEntry{text: "0 1 7", runs: runs{N: 2}} }, func(a fig10Audit) int64 { return a[auditRunTwice] }},
		"half a transfer":    {func(s *state) { s.accounts[1].balance -= 7 }, func(a fig10Audit) int64 { return a[auditWrongAccounts] }},
		"money":              {func(s *state) { s.accounts[1].balance++ }, func(a fig10Audit) int64 { return a[auditClosing] - a[auditOpening] }},
		"a lost increment":   {func(s *state) { s.accounts[0].count-- }, func(a fig10Audit) int64 { return a[auditWrongCounts] }},
		"an increment more":  {func(s *state) { s.accounts[1].count = 3 }, func(a fig10Audit) int64 { return a[auditWrongCounts] }},
	} {
		s := good()
		c.damage(&s)
		if a := auditOf(s.results, s.entries, s.accounts); a.err() == nil || c.found(a) != 1 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
