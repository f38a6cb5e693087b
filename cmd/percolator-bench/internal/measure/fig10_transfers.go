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

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
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
	runsColumn    = "runs"  // of the journal, by the observer

	openingBalance = 1000
)

var (
	balances    = percolator.Int64(fig10Accounts, balanceColumn)
	counts      = percolator.Int64(fig10Accounts, countColumn)
	journalRuns = percolator.JSON[runs](fig10Journal, runsColumn)
)

// runs is what the observer says of an entry.
type runs struct {
	N    int       `json:"n"`
	Last time.Time `json:"last"`
}

func fig10Schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{Name: fig10Accounts}, {Name: fig10Journal, Observed: []string{entryColumn}}}}
}

func accountRow(of, account int) string { return fmt.Sprintf("%04x-%d", account*0x10000/of, account) }

// journalCell names the entry of a transfer. Its row has nothing to do with those of the accounts.
func journalCell(id int64) percolator.Cell {
	const odd = 40503 // times the golden ratio, so that consecutive ones are far apart
	return percolator.Cell{Table: fig10Journal, Row: fmt.Sprintf("%04x-%d", id*odd%0x10000, id), Column: entryColumn}
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
	from, to := accountRow(accounts, t.from), accountRow(accounts, t.to)
	for _, change := range []struct {
		column percolator.Column[int64]
		row    string
		add    int
	}{{balances, from, -t.amount}, {counts, from, 1}, {balances, to, t.amount}, {counts, to, 1}} {
		n, err := change.column.Get(ctx, tx, change.row)
		if err != nil {
			return err
		}
		if err := change.column.Set(tx, change.row, n+int64(change.add)); err != nil {
			return err
		}
	}
	return tx.Set(journalCell(t.id), []byte(t.entry()))
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
	return fill.Items(ctx, l.client, l.accounts, func(tx *percolator.Txn, i int) error {
		row := accountRow(l.accounts, i)
		return errors.Join(balances.Set(tx, row, openingBalance), counts.Set(tx, row, 0))
	})
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
