package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// fig10Bucket is what happened in a stretch of time.
type fig10Bucket struct {
	at      float64 // its beginning, in seconds since the first transfer was offered
	commits float64 // transfers whose callers were told that they are committed
	runs    float64 // observer runs that were committed
	backlog int     // at its end: committed transfers without their run
}

// fig10Dip is how a rate went down and came back, by events a second.
type fig10Dip struct {
	before   float64  // mean of the steady time before the event
	during   float64  // mean while the fault lasts; of what dies at once: 0
	lowest   float64  // least bucket from the event until it has recovered
	recovery *float64 // from the end of the fault; nil: not before the next event
}

// fig10Backlog is how many observed changes waited for their run.
type fig10Backlog struct {
	before   int // the most at the end of any bucket of the steady time before the event
	normal   int // the same, or what is committed in a tenth of a second if that is more
	most     int
	recovery *float64 // from the end of the fault until it stays normal; nil: never
}

// span is a stretch of the run, since its beginning.
type span struct{ from, to time.Duration }

// recovered is the share of the rate before an event that counts as recovered, and steadyFor for
// how long it has to hold: as many buckets, on the mean.
const (
	recovered = 0.9
	steadyFor = 4
)

// fig10Moments are when things happened, all but the waits sorted.
type fig10Moments struct {
	commits []time.Time // transfers that were acknowledged
	untold  []time.Time // transfers that were committed all the same: when their callers gave up
	runs    []time.Time // committed
	waits   []fig10Wait // from the end of each committed transfer until its run
}

type fig10Wait struct {
	until  time.Time
	lasted time.Duration
}

// seriesOf sorts moments into buckets of a width, of which all are full.
func seriesOf(started time.Time, whole, width time.Duration, m fig10Moments) []fig10Bucket {
	out := make([]fig10Bucket, int(whole/width))
	counts := make([][3]int, len(out))
	var early [3]int // before started: such commits have long had their runs
	for kind, moments := range [][]time.Time{m.commits, m.untold, m.runs} {
		for _, at := range moments {
			switch n := int(at.Sub(started) / width); {
			case at.Before(started):
				early[kind]++
			case n < len(out):
				counts[n][kind]++
			}
		}
	}
	backlog := early[0] + early[1] - early[2]
	for i, n := range counts {
		backlog += n[0] + n[1] - n[2]
		// An observer may commit before the writer has heard of its own commit.
		out[i] = fig10Bucket{at: (time.Duration(i) * width).Seconds(), commits: float64(n[0]) / width.Seconds(),
			runs: float64(n[2]) / width.Seconds(), backlog: max(backlog, 0)}
	}
	return out
}

// bucketsIn returns the buckets that lie in s as a whole.
func bucketsIn(all []fig10Bucket, width time.Duration, s span) []fig10Bucket {
	first := int((s.from + width - 1) / width)
	end := min(int(s.to/width), len(all))
	if first >= end {
		return nil
	}
	return all[first:end]
}

func meanOf(buckets []fig10Bucket, rate func(fig10Bucket) float64) float64 {
	sum := 0.
	for _, b := range buckets {
		sum += rate(b)
	}
	return sum / float64(max(len(buckets), 1))
}

// dipOf finds how a rate went down in the fault and came back before the end. The recovery is at
// the beginning of the first bucket after the fault that has the rate and is followed by others
// that have it on the mean. Both are asked: what was held up comes all at once, so that a mean
// alone would be reached before anything is.
func dipOf(all []fig10Bucket, width time.Duration, steady, fault span, end time.Duration, rate func(fig10Bucket) float64) (d fig10Dip) {
	d.before, d.during = meanOf(bucketsIn(all, width, steady), rate), meanOf(bucketsIn(all, width, fault), rate)
	after := bucketsIn(all, width, span{fault.to, end})
	low := bucketsIn(all, width, span{fault.from, end})
	least := recovered * d.before
	if i := firstSteady(after, func(next []fig10Bucket) bool { return rate(next[0]) >= least && meanOf(next, rate) >= least }); i >= 0 {
		at := after[i].at - fault.to.Seconds()
		d.recovery = &at
		low = low[:len(low)-len(after)+i+1]
	}
	for i, b := range low {
		if i == 0 || rate(b) < d.lowest {
			d.lowest = rate(b)
		}
	}
	return d
}

// backlogOf finds how the backlog grew and went away.
func backlogOf(all []fig10Bucket, width time.Duration, steady, fault span, end time.Duration) (l fig10Backlog) {
	for _, b := range bucketsIn(all, width, steady) {
		l.before = max(l.before, b.backlog)
	}
	l.normal = max(l.before, int(meanOf(bucketsIn(all, width, steady), func(b fig10Bucket) float64 { return b.commits })/10))
	for _, b := range bucketsIn(all, width, span{fault.from, end}) {
		l.most = max(l.most, b.backlog)
	}
	after := bucketsIn(all, width, span{fault.to, end})
	if i := firstSteady(after, func(next []fig10Bucket) bool {
		return !slices.ContainsFunc(next, func(b fig10Bucket) bool { return b.backlog > l.normal })
	}); i >= 0 {
		at := after[i].at + width.Seconds() - fault.to.Seconds()
		l.recovery = &at
	}
	return l
}

// firstSteady returns from which bucket on it and those behind it are as they should be, -1 if
// there is none.
func firstSteady(buckets []fig10Bucket, steady func(next []fig10Bucket) bool) int {
	for i := 0; i+steadyFor <= len(buckets); i++ {
		if steady(buckets[i : i+steadyFor]) {
			return i
		}
	}
	return -1
}

// longestGap returns the longest time without any of the moments, which are sorted, within s.
func longestGap(started time.Time, moments []time.Time, s span) time.Duration {
	last, longest := s.from, time.Duration(0)
	for _, at := range moments {
		if t := at.Sub(started); t > s.from && t < s.to {
			longest, last = max(longest, t-last), t
		}
	}
	return max(longest, s.to-last)
}

func (s span) has(at time.Duration) bool { return at >= s.from && at < s.to }

// fig10Audit compares what is in the store in the end with what callers were told: counts by name.
type fig10Audit map[string]int64

// What an audit counts, in the order of the report.
const (
	auditAcknowledged  = "acknowledged" // transfers whose callers were told that they are committed
	auditMissing       = "missing"      // of those: without their entry in the journal
	auditUnknown       = "outcome unknown"
	auditCommitted     = "of which committed"
	auditFailed        = "failed"           // callers that were told that nothing was written
	auditUnfailed      = "failed and there" // of those: with an entry all the same
	auditEntries       = "entries"
	auditAltered       = "altered" // entries with other contents than written, or never written
	auditNotRun        = "without a run"
	auditRunTwice      = "run twice"
	auditOpening       = "balances before" // the sum of all
	auditClosing       = "balances after"
	auditWrongAccounts = "wrong accounts" // balance or count differ from the entries
	// auditWrongCounts are accounts that were part of fewer transfers than were acknowledged, or of
	// more than those and the ones whose outcome was unknown.
	auditWrongCounts = "wrong counts"
)

func (a fig10Audit) into(row *report.Row) {
	for _, name := range []string{auditAcknowledged, auditMissing, auditUnknown, auditCommitted, auditFailed, auditUnfailed, auditEntries,
		auditAltered, auditNotRun, auditRunTwice, auditOpening, auditClosing, auditWrongAccounts, auditWrongCounts} {
		row.Add(name, a[name])
	}
}

// err says what is wrong, if anything is.
func (a fig10Audit) err() error {
	wrong := a[auditOpening] != a[auditClosing] || a[auditEntries] != a[auditAcknowledged]+a[auditCommitted]
	for _, name := range []string{auditMissing, auditUnfailed, auditAltered, auditWrongAccounts, auditWrongCounts,
		auditNotRun, auditRunTwice} {
		wrong = wrong || a[name] != 0
	}
	if wrong {
		return fmt.Errorf("the audit failed: %v", a)
	}
	return nil
}

// journalEntry is a row of the journal.
type journalEntry struct {
	text string
	runs
}

// account is what is known of an account: what the store says, what the entries make of it, and
// what callers were told.
type account struct {
	balance, count, derived, derivedCount, acknowledged, unresolved int64
}

// auditStore reads everything in one snapshot and compares. It resolves locks that are left, like
// any reader.
func auditStore(ctx context.Context, c *percolator.Client, l *transfers) (fig10Audit, map[int64]journalEntry, error) {
	if err := c.Flush(ctx); err != nil {
		return nil, nil, err
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	entries, err := readJournal(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	accounts, err := readAccounts(ctx, s, l.accounts)
	if err != nil {
		return nil, nil, err
	}
	return auditOf(l.results(), entries, accounts), entries, nil
}

func readJournal(ctx context.Context, s percolator.Reader) (map[int64]journalEntry, error) {
	entries := map[int64]journalEntry{}
	for e, err := range s.Scan(ctx, fig10Journal, percolator.All(), entryColumn, runsColumn) {
		if err != nil {
			return nil, err
		}
		id, err := numberOf(e.Cell.Row)
		if err != nil {
			return nil, err
		}
		j := entries[id]
		if e.Cell.Column == entryColumn {
			j.text = string(e.Value)
		} else if j.runs, err = journalRuns.Decode(e.Cell.Row, e.Value); err != nil {
			return nil, err
		}
		entries[id] = j
	}
	return entries, nil
}

func readAccounts(ctx context.Context, s percolator.Reader, n int) ([]account, error) {
	accounts := make([]account, n)
	for e, err := range s.Scan(ctx, fig10Accounts, percolator.All(), balanceColumn, countColumn) {
		if err != nil {
			return nil, err
		}
		i, err := numberOf(e.Cell.Row)
		v, err2 := balances.Decode(e.Cell.Row, e.Value)
		if err := errors.Join(err, err2); err != nil || i < 0 || i >= int64(n) {
			return nil, fmt.Errorf("%s is no account's", e.Cell)
		}
		if e.Cell.Column == balanceColumn {
			accounts[i].balance = v
		} else {
			accounts[i].count = v
		}
	}
	return accounts, nil
}

// auditOf compares what callers were told with the journal, the journal with the accounts, and the
// accounts with the callers.
func auditOf(results []transfer, entries map[int64]journalEntry, accounts []account) fig10Audit {
	a, written := fig10Audit{}, make(map[int64]string, len(results))
	count := func(name string, that bool) {
		if that {
			a[name]++
		}
	}
	for _, t := range results {
		e, there := entries[t.id]
		written[t.id] = t.entry()
		switch {
		case t.err == nil:
			a[auditAcknowledged]++
			count(auditMissing, !there || e.text == "")
			accounts[t.from].acknowledged++
			accounts[t.to].acknowledged++
		case sentinelOf(t.err) == sentinels[0].name:
			a[auditUnknown]++
			count(auditCommitted, there)
			accounts[t.from].unresolved++
			accounts[t.to].unresolved++
		default:
			a[auditFailed]++
			count(auditUnfailed, there)
		}
	}
	for id, e := range entries {
		a[auditEntries]++
		count(auditNotRun, e.N == 0)
		count(auditRunTwice, e.N > 1)
		count(auditAltered, !e.apply(written[id], accounts))
	}
	for _, acc := range accounts {
		a[auditOpening] += openingBalance
		a[auditClosing] += acc.balance
		count(auditWrongAccounts, acc.balance != openingBalance+acc.derived || acc.count != acc.derivedCount)
		count(auditWrongCounts, acc.count < acc.acknowledged || acc.count > acc.acknowledged+acc.unresolved)
	}
	return a
}

// apply derives accounts from the entry; false if it is not what was written.
func (e journalEntry) apply(written string, accounts []account) bool {
	var from, to int
	var amount int64
	_, err := fmt.Sscanf(e.text, "%d %d %d", &from, &to, &amount)
	if err != nil || e.text != strings.TrimSpace(written) || min(from, to) < 0 || max(from, to) >= len(accounts) {
		return false
	}
	accounts[from].derived -= amount
	accounts[to].derived += amount
	accounts[from].derivedCount++
	accounts[to].derivedCount++
	return true
}
