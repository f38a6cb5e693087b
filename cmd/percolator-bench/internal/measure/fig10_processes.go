package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// fig10Setting is how the processes are set up.
type fig10Setting struct {
	At                          addresses
	LockTTL                     time.Duration
	Lease, Window, SessionLease time.Duration // of the servers of the oracle (tso.ServerConfig)

	NoBatching bool // of reads; for comparison
	// NoRowLocks lets the workers lock no rows against each other. Those that a killed worker has
	// locked are left alone by others for 10 s: short runs do not want to wait so long.
	NoRowLocks bool
}

func (s fig10Setting) client() percolator.Config {
	return percolator.Config{LockTTL: s.LockTTL, DisableBatching: s.NoBatching}
}

// fig10Oracle is the process of one server of the oracle, whose record is in Bigtable. It says
// where it listens, and hands over when its input ends.
func fig10Oracle(ctx context.Context, s fig10Setting, l *lines) error {
	e := &environment{at: s.At, options: emulator.Connect(s.At.Bigtable)}
	e.serveOracle(ctx, tso.NewBigtableStore(e.raw(ctx)(tso.BigtableTable), instance),
		tso.ServerConfig{Lease: s.Lease, Window: s.Window, SessionLease: s.SessionLease})
	return answer(l, e, func(struct{}) (addresses, error) { return e.at, nil })
}

// fig10Order is what a worker is asked.
type fig10Order struct {
	Outage *outageTimes
	Sever  bool // get no commit through from now on
}

// fig10News is a worker's answer: which runs it has committed since the last one, and its counts so
// far.
type fig10News struct {
	Runs                map[string]time.Time // by their rows of the journal
	Stats               percolator.Stats
	Refused, Lost, Held int64
}

func newsOf(c *percolator.Client, o *outage) fig10News {
	return fig10News{Stats: c.Stats(), Refused: o.refused.Load(), Lost: o.lost.Load(), Held: o.held.Load()}
}

// fig10Worker is the process of one worker.
func fig10Worker(ctx context.Context, s fig10Setting, l *lines) error {
	faults, clock := new(outage), newCommitClock()
	e := connectEnvironment(ctx, s.At)
	client := e.client(ctx, s.client(), append([]option.ClientOption{clock.option()}, faults.options()...)...)
	e.work(ctx, client, fig10Registry(), observers.Config{DisableRowLocks: s.NoRowLocks})
	return answer(l, e, func(o fig10Order) (fig10News, error) {
		if o.Outage != nil {
			faults.times.Store(o.Outage)
		}
		if o.Sever {
			faults.severed.Store(true)
		}
		n := newsOf(client, faults)
		n.Runs = clock.take(runsColumn)
		return n, nil
	})
}

// fig10Registry has the observer of the journal, which counts its runs and says when the last one
// was.
func fig10Registry() *observers.Registry {
	r := observers.NewRegistry()
	r.Observe(journalObserver, fig10Journal, entryColumn, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		r, err := journalRuns.GetOr(ctx, tx, ch.Cell.Row, runs{})
		if err != nil {
			return err
		}
		return journalRuns.Set(tx, ch.Cell.Row, runs{r.N + 1, time.Now()})
	})
	return r
}

// fig10Environment has two servers of the oracle and two workers in processes of their own, which
// can be killed, and a client in this process, whose requests go through an outage like the
// workers'.
type fig10Environment struct {
	*environment
	oracles map[string]*process // by address
	client  *percolator.Client
	faults  *outage
	workers []*fig10WorkerProcess
}

func startFig10(ctx context.Context, s fig10Setting, emulator string) (*fig10Environment, error) {
	e := &fig10Environment{faults: new(outage), oracles: map[string]*process{}, environment: newEnvironment(ctx, emulator, fig10Schema())}
	s.At = e.at
	var targets []string
	for range 2 {
		var at addresses
		p := e.part(ctx, "fig10-oracle", s, &at, collectSeldom()...)
		e.oracles[at.Oracle], targets = p, append(targets, at.Oracle)
	}
	s.At.Oracle = strings.Join(targets, ",")
	e.dial(ctx, s.At.Oracle)
	e.client = e.environment.client(ctx, s.client(), e.faults.options()...)
	for range 2 {
		e.workers = append(e.workers, e.startFig10Worker(ctx, s))
	}
	return e, e.orClose()
}

// leader returns the server of the oracle that leads.
func (e *fig10Environment) leader(ctx context.Context) (*process, error) {
	for {
		for at, p := range e.oracles {
			if s, err := tso.AskStatus(ctx, at); err == nil && s.Leading {
				return p, nil
			}
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return nil, fmt.Errorf("no server of the oracle leads: %w", ctx.Err())
		}
	}
}

// breakTablets schedules the outage in every process.
func (e *fig10Environment) breakTablets(t outageTimes) (err error) {
	e.faults.times.Store(&t)
	for _, w := range e.workers {
		_, wrong := w.order(fig10Order{Outage: &t})
		err = errors.Join(err, wrong)
	}
	return err
}

// counts is what all processes have counted so far.
func (e *fig10Environment) counts() map[string]int64 {
	sum := map[string]int64{}
	all := []fig10News{newsOf(e.client, e.faults)}
	for _, w := range e.workers {
		n, _ := w.order(fig10Order{})
		all = append(all, n)
	}
	for _, n := range all {
		sum["rolled forward"] += n.Stats.RolledForward
		sum["rolled back"] += n.Stats.RolledBack
		sum["conflicts"] += n.Stats.Conflicts
		sum["refused"] += n.Refused
		sum["answers lost"] += n.Lost
	}
	return sum
}

// fig10WorkerProcess is a worker's process and what it has told.
type fig10WorkerProcess struct {
	*process
	mu   sync.Mutex
	news fig10News            // the last ones
	runs map[string]time.Time // by row
}

// newsEvery is how often a worker is asked for news. What it has done since the last time dies with
// it.
const newsEvery = 20 * time.Millisecond

func (e *environment) startFig10Worker(ctx context.Context, s fig10Setting) *fig10WorkerProcess {
	w := &fig10WorkerProcess{process: e.part(ctx, "fig10-worker", s, nil), runs: map[string]time.Time{}}
	if e.err == nil {
		_, e.err = w.order(fig10Order{})
		e.background(ctx, func(ctx context.Context) error {
			for pause(ctx, newsEvery); ctx.Err() == nil; pause(ctx, newsEvery) {
				if _, err := w.order(fig10Order{}); err != nil {
					return nil // it was killed; any other end is an error of the process
				}
			}
			return nil
		})
	}
	return w
}

// kill kills the worker between two answers.
func (w *fig10WorkerProcess) kill() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process.kill()
}

// order gives an order and returns the worker's news: the last ones of a worker that has ended, and
// an error.
func (w *fig10WorkerProcess) order(o fig10Order) (fig10News, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n fig10News
	err := w.ask(o, &n)
	if err == nil {
		maps.Copy(w.runs, n.Runs)
		w.news = n
	}
	return w.news, err
}

// The tables of fig10. Row keys begin with four hexadecimal digits that spread them evenly over the
// key space, so that a range of them is that share of either table.
const (
	fig10Accounts = "accounts"
	fig10Journal  = "journal"
	balanceColumn = "balance"
	countColumn   = "count" // how many transfers the account was part of
	entryColumn   = "entry" // of the journal: "FROM TO AMOUNT"; observed
	runsColumn    = "runs"  // of the journal, by the observer

	journalObserver = "post"

	openingBalance = 1000
)

var (
	balances    = percolator.Int64(fig10Accounts, balanceColumn)
	counts      = percolator.Int64(fig10Accounts, countColumn)
	journalRuns = percolator.JSON[runs](fig10Journal, runsColumn)
)

// runs is what the observer says of an entry.
type runs struct {
	N    int
	Last time.Time
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
	due, ended       time.Time
	err              error
}

func (t *transfer) entry() string { return fmt.Sprintf("%d %d %d", t.from, t.to, t.amount) }

// transfers makes transfers and remembers all of them.
type transfers struct {
	client   *percolator.Client
	accounts int
	deadline time.Duration // of each transfer
	seed     uint64        // of which accounts and how much

	started atomic.Int64 // ids

	mu   sync.Mutex
	done []transfer
}

// mostPending is how many transfers are under way at most. What is offered beyond them is not
// started, and counted.
const mostPending = 16_384

// one makes a transfer between two accounts at random.
func (l *transfers) one(ctx context.Context) {
	id := l.started.Add(1)
	random := rand.New(rand.NewPCG(l.seed, uint64(id)))
	t := transfer{id: id, from: random.IntN(l.accounts), to: random.IntN(l.accounts - 1), amount: 1 + random.IntN(10), due: time.Now()}
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
// the last, and returns how many have been committed.
func (l *transfers) saturate(ctx context.Context, writers int, d time.Duration) (committed int) {
	before := len(l.results())
	_ = generator{callers: writers, more: during(d)}.run(ctx, func(ctx context.Context, _ int, _ time.Time) error { l.one(ctx); return nil })
	for _, t := range l.results()[before:] {
		if t.err == nil {
			committed++
		}
	}
	return committed
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
	{"ErrOverloaded", percolator.ErrOverloaded},
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
