package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// Fig10Audit compares what is in the store in the end with what callers were told.
type Fig10Audit struct {
	Acknowledged int64 `json:"acknowledged"` // transfers whose callers were told that they are committed
	Missing      int64 `json:"missing"`      // of those: without their entry in the journal

	Unknown          int64 `json:"outcome_unknown"` // callers that were told ErrOutcomeUnknown
	UnknownCommitted int64 `json:"of_which_committed"`
	Failed           int64 `json:"failed"`   // callers that were told that nothing was written
	Unfailed         int64 `json:"unfailed"` // of those: with an entry all the same
	Entries          int64 `json:"entries"`
	Altered          int64 `json:"altered"` // entries that say something else than was written, or that nobody wrote

	Opening       int64 `json:"opening_balances"` // the sum of all, before
	Closing       int64 `json:"closing_balances"`
	WrongAccounts int64 `json:"wrong_accounts"` // whose balance or count is not what the entries make of it
	// WrongCounts are accounts that were part of fewer transfers than were acknowledged, or of more than those and the ones whose
	// outcome was unknown.
	WrongCounts int64 `json:"wrong_counts"`

	NotRun   int64 `json:"not_run"`   // entries without a run of their observer
	RunTwice int64 `json:"run_twice"` // entries with more than one
}

// Err says what is wrong, if anything is.
func (a Fig10Audit) Err() error {
	if a.Missing+a.Unfailed+a.Altered+a.WrongAccounts+a.WrongCounts+a.NotRun+a.RunTwice == 0 && a.Opening == a.Closing &&
		a.Entries == a.Acknowledged+a.UnknownCommitted {
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

// audit reads everything in one snapshot and compares. Locks that are left it settles like any reader.
func (r *fig10Run) audit(ctx context.Context, results []transfer) (map[int64]journalEntry, error) {
	if err := r.ground.client.Flush(ctx); err != nil {
		return nil, err
	}
	s, err := r.ground.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := readJournal(ctx, s)
	if err != nil {
		return nil, err
	}
	accounts, err := readAccounts(ctx, s, r.cfg.Accounts)
	if err != nil {
		return nil, err
	}
	r.report.Audit = auditOf(results, entries, accounts)
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
func auditOf(results []transfer, entries map[int64]journalEntry, accounts []account) (a Fig10Audit) {
	written := make(map[int64]string, len(results))
	for _, t := range results {
		e, there := entries[t.id]
		written[t.id] = t.entry()
		switch {
		case t.err == nil:
			a.Acknowledged++
			if !there || e.text == "" {
				a.Missing++
			}
			accounts[t.from].acknowledged++
			accounts[t.to].acknowledged++
		case sentinelOf(t.err) == sentinels[0].name:
			a.Unknown++
			if there {
				a.UnknownCommitted++
			}
			accounts[t.from].unresolved++
			accounts[t.to].unresolved++
		default:
			a.Failed++
			if there {
				a.Unfailed++
			}
		}
	}
	for id, e := range entries {
		a.entry(e, written[id], accounts)
	}
	for _, acc := range accounts {
		a.Opening += openingBalance
		a.Closing += acc.balance
		if acc.balance != openingBalance+acc.derived || acc.count != acc.derivedCount {
			a.WrongAccounts++
		}
		if acc.count < acc.acknowledged || acc.count > acc.acknowledged+acc.unresolved {
			a.WrongCounts++
		}
	}
	return a
}

// entry takes an entry into account.
func (a *Fig10Audit) entry(e journalEntry, written string, accounts []account) {
	a.Entries++
	switch {
	case e.runs == 0:
		a.NotRun++
	case e.runs > 1:
		a.RunTwice++
	}
	var from, to int
	var amount int64
	_, err := fmt.Sscanf(e.text, "%d %d %d", &from, &to, &amount)
	if err != nil || e.text != strings.TrimSpace(written) || min(from, to) < 0 || max(from, to) >= len(accounts) {
		a.Altered++
		return
	}
	accounts[from].derived -= amount
	accounts[to].derived += amount
	accounts[from].derivedCount++
	accounts[to].derivedCount++
}
