package measure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// fig10Audit compares what is in the store in the end with what callers were told.
type fig10Audit struct {
	acknowledged int64 // transfers whose callers were told that they are committed
	missing      int64 // of those: without their entry in the journal

	unknown          int64 // callers that were told ErrOutcomeUnknown
	unknownCommitted int64
	failed           int64 // callers that were told that nothing was written
	unfailed         int64 // of those: with an entry all the same
	entries          int64
	altered          int64 // entries that say something else than was written, or that nobody wrote

	opening       int64 // the sum of all balances, before
	closing       int64
	wrongAccounts int64 // whose balance or count is not what the entries make of it
	// wrongCounts are accounts that were part of fewer transfers than were acknowledged, or of more than those and the ones whose
	// outcome was unknown.
	wrongCounts int64

	notRun   int64 // entries without a run of their observer
	runTwice int64 // entries with more than one
}

func (a fig10Audit) into(row *report.Row) {
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"acknowledged", a.acknowledged}, {"missing", a.missing}, {"outcome unknown", a.unknown}, {"of which committed", a.unknownCommitted},
		{"failed", a.failed}, {"failed and there", a.unfailed}, {"entries", a.entries}, {"altered", a.altered}, {"without a run", a.notRun},
		{"run twice", a.runTwice}, {"balances before", a.opening}, {"balances after", a.closing}, {"wrong accounts", a.wrongAccounts}, {"wrong counts", a.wrongCounts},
	} {
		report.Add(row, f.name, "", f.n)
	}
}

// err says what is wrong, if anything is.
func (a fig10Audit) err() error {
	if a.missing+a.unfailed+a.altered+a.wrongAccounts+a.wrongCounts+a.notRun+a.runTwice == 0 && a.opening == a.closing &&
		a.entries == a.acknowledged+a.unknownCommitted {
		return nil
	}
	return fmt.Errorf("the audit failed: %+v", a)
}

// journalEntry is a row of the journal.
type journalEntry struct {
	text    string
	runs    int
	lastRun time.Time
}

// account is what is known of an account: what the store says, what the entries make of it, and what callers were told.
type account struct {
	balance, count           int64
	derived, derivedCount    int64
	acknowledged, unresolved int64
}

// auditStore reads everything in one snapshot and compares. Locks that are left it settles like any reader.
func (r *fig10Run) auditStore(ctx context.Context, results []transfer) (map[int64]journalEntry, error) {
	if err := r.env.client.Flush(ctx); err != nil {
		return nil, err
	}
	s, err := r.env.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := readJournal(ctx, s)
	if err != nil {
		return nil, err
	}
	accounts, err := readAccounts(ctx, s, r.b.accounts)
	if err != nil {
		return nil, err
	}
	r.audit = auditOf(results, entries, accounts)
	return entries, nil
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
		} else if j.runs, j.lastRun, err = parseRuns(e.Value); err != nil {
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
		v, err2 := strconv.ParseInt(string(e.Value), 10, 64)
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

// auditOf compares what callers were told with the journal, the journal with the accounts, and the accounts with the callers.
func auditOf(results []transfer, entries map[int64]journalEntry, accounts []account) (a fig10Audit) {
	written := make(map[int64]string, len(results))
	for _, t := range results {
		e, there := entries[t.id]
		written[t.id] = t.entry()
		switch {
		case t.err == nil:
			a.acknowledged++
			if !there || e.text == "" {
				a.missing++
			}
			accounts[t.from].acknowledged++
			accounts[t.to].acknowledged++
		case sentinelOf(t.err) == sentinels[0].name:
			a.unknown++
			if there {
				a.unknownCommitted++
			}
			accounts[t.from].unresolved++
			accounts[t.to].unresolved++
		default:
			a.failed++
			if there {
				a.unfailed++
			}
		}
	}
	for id, e := range entries {
		a.entry(e, written[id], accounts)
	}
	for _, acc := range accounts {
		a.opening += openingBalance
		a.closing += acc.balance
		if acc.balance != openingBalance+acc.derived || acc.count != acc.derivedCount {
			a.wrongAccounts++
		}
		if acc.count < acc.acknowledged || acc.count > acc.acknowledged+acc.unresolved {
			a.wrongCounts++
		}
	}
	return a
}

// entry takes an entry into account.
func (a *fig10Audit) entry(e journalEntry, written string, accounts []account) {
	a.entries++
	switch {
	case e.runs == 0:
		a.notRun++
	case e.runs > 1:
		a.runTwice++
	}
	var from, to int
	var amount int64
	_, err := fmt.Sscanf(e.text, "%d %d %d", &from, &to, &amount)
	if err != nil || e.text != strings.TrimSpace(written) || min(from, to) < 0 || max(from, to) >= len(accounts) {
		a.altered++
		return
	}
	accounts[from].derived -= amount
	accounts[to].derived += amount
	accounts[from].derivedCount++
	accounts[to].derivedCount++
}
