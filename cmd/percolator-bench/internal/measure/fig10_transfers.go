package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// The tables of fig10. Row keys begin with four hexadecimal digits that spread them evenly over the
// key space, so that a range of them is that share of either table.
const (
	fig10Accounts = "accounts"
	fig10Journal  = "journal"
	balanceColumn = "balance"
	countColumn   = "count" // how many transfers the account was part of
	entryColumn   = "entry" // of the journal: "FROM TO AMOUNT"; observed
	runsColumn    = "runs"  // of the journal, by the observer: "RUNS NANOSECONDS SINCE 1970"

	openingBalance = 1000
)

func fig10Schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{Name: fig10Accounts}, {Name: fig10Journal, Observed: []string{entryColumn}}}}
}

func accountCell(of, account int, column string) percolator.Cell {
	return percolator.Cell{Table: fig10Accounts, Row: fmt.Sprintf("%04x-%d", account*0x10000/of, account), Column: column}
}

// journalCell names the entry of a transfer. Its row has nothing to do with those of the accounts.
func journalCell(id int64, column string) percolator.Cell {
	const odd = 40503 // times the golden ratio, so that consecutive ones are far apart
	return percolator.Cell{Table: fig10Journal, Row: fmt.Sprintf("%04x-%d", id*odd%0x10000, id), Column: column}
}

// numberOf returns what stands behind the dash of a row key.
func numberOf(row string) (int64, error) {
	_, digits, _ := strings.Cut(row, "-")
	return strconv.ParseInt(digits, 10, 64)
}

// transfer is one transaction of the load, and what its caller was told.
type transfer struct {
	id               int64
	from, to, amount int
	ended            time.Time
	err              error
}

func (t *transfer) entry() string { return fmt.Sprintf("%d %d %d", t.from, t.to, t.amount) }

// transfers makes transfers and remembers all of them.
type transfers struct {
	client   *percolator.Client
	accounts int
	deadline time.Duration // of each transfer

	begun atomic.Int64 // ids

	mu   sync.Mutex
	done []transfer
}

// mostPending is how many transfers are under way at most. What is offered beyond them is not
// begun, and counted.
const mostPending = 16_384

// one makes a transfer between two accounts at random.
func (l *transfers) one(ctx context.Context) {
	t := transfer{id: l.begun.Add(1), from: rand.IntN(l.accounts), to: rand.IntN(l.accounts - 1), amount: 1 + rand.IntN(10)}
	if t.to >= t.from {
		t.to++
	}
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	_, t.err = l.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return t.apply(ctx, tx, l.accounts) })
	t.ended = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, t)
}

// apply reads both accounts, changes them, and writes the journal.
func (t *transfer) apply(ctx context.Context, tx *percolator.Txn, accounts int) error {
	for _, change := range []struct {
		cell percolator.Cell
		add  int
	}{
		{accountCell(accounts, t.from, balanceColumn), -t.amount}, {accountCell(accounts, t.from, countColumn), 1},
		{accountCell(accounts, t.to, balanceColumn), t.amount}, {accountCell(accounts, t.to, countColumn), 1},
	} {
		value, err := tx.Get(ctx, change.cell)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(value))
		if err != nil {
			return fmt.Errorf("%s is no number", change.cell)
		}
		if err := tx.Set(change.cell, strconv.AppendInt(nil, int64(n+change.add), 10)); err != nil {
			return err
		}
	}
	return tx.Set(journalCell(t.id, entryColumn), []byte(t.entry()))
}

// saturate has writers make transfers for as long as d, each the next one when it has been told of
// the last, and returns how many a second were committed.
func (l *transfers) saturate(ctx context.Context, writers int, d time.Duration) float64 {
	begun := time.Now()
	_ = generator{callers: writers, more: during(d)}.run(ctx, func(ctx context.Context, _ int, _ time.Time) error { l.one(ctx); return nil })
	committed := 0
	for _, t := range l.results() {
		if t.err == nil {
			committed++
		}
	}
	return float64(committed) / time.Since(begun).Seconds()
}

// offer begins transfers at equal distances in time, whatever becomes of earlier ones, until stop
// is set, and returns how many were not begun as too many were under way.
func (l *transfers) offer(ctx context.Context, rate float64, stop *atomic.Bool) (shed int64, err error) {
	return generator{rate: rate, most: mostPending, more: func() bool { return !stop.Load() }}.arrive(ctx,
		func(ctx context.Context, _ int) error { l.one(ctx); return nil })
}

// results returns what has ended so far.
func (l *transfers) results() []transfer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[:len(l.done):len(l.done)]
}

// open gives every account its opening balance.
func (l *transfers) open(ctx context.Context) error {
	const batch = 500 // accounts in a transaction
	for first := 0; first < l.accounts; first += batch {
		if _, err := l.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			for i := first; i < min(first+batch, l.accounts); i++ {
				if err := errors.Join(tx.Set(accountCell(l.accounts, i, balanceColumn), []byte(strconv.Itoa(openingBalance))),
					tx.Set(accountCell(l.accounts, i, countColumn), []byte("0"))); err != nil {
					return err
				}
			}
			return nil
		}, percolator.Blind()); err != nil {
			return fmt.Errorf("opening the accounts: %w", err)
		}
	}
	return l.client.Flush(ctx)
}

// sentinels are the errors that callers tell apart. An error may be several of them: the first
// counts.
var sentinels = []struct {
	name string
	err  error
}{
	{"ErrOutcomeUnknown", percolator.ErrOutcomeUnknown},
	{"ErrConflict", percolator.ErrConflict},
	{"ErrLocked", percolator.ErrLocked},
	{"ErrSnapshotTooOld", percolator.ErrSnapshotTooOld},
	{"tso.ErrUnavailable", tso.ErrUnavailable},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
	{"context.Canceled", context.Canceled},
}

// sentinelOf names an error as its caller would tell it.
func sentinelOf(err error) string {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.name
		}
	}
	return "another error"
}
