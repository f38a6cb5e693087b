package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// runLimit bounds one cell of the matrix: who waits for a clock that stands still fails.
const runLimit = 2 * time.Minute

// crashRun is one run of a scenario: rows of its own, and a client of its own that will be the
// victim.
type crashRun struct {
	testing.TB
	ctx      context.Context
	env      *matrixEnv
	other    *percolator.Client // everybody else
	scenario *scenario
	oneByOne bool              // it prewrites its rows one after the other
	prefix   string            // of its rows
	rows     map[string]string // names by table/row
	history  map[string][]cellVersion
	older    []*percolator.Txn      // started before the transaction
	foreign  map[tso.Timestamp]bool // start timestamps of other transactions that were rolled back

	victim victim             // the process that runs the transaction, unless this one does
	client *percolator.Client // which runs it otherwise
	faults *percolatortest.Faults
	own    context.Context // the transaction's
	giveUp context.CancelFunc
	began  time.Time
	start  atomic.Int64
	done   chan result
	seen   map[tso.Timestamp]map[string]string // what others have read, by snapshot
	read   map[string]string                   // what the transaction has read

	target   requestID
	hold     *percolatortest.Hold
	zombie   *percolatortest.Hold // delivered before the client goes on
	hits     int                  // of the fault; used by the handler
	appended bool                 // a request to the journal was sent
	struck   chan struct{}        // closed at the first

	finished  *result       // what the client was told; nil until it was
	committed bool          // the commit point had been passed when somebody looked
	commitTS  tso.Timestamp // if it was
	loose     bool          // requests of the transaction may still be on their way
}

// result is what the transaction's caller is told.
type result struct {
	ts       tso.Timestamp
	err      error
	attempts int
	took     time.Duration // from Begin to the answer
}

// mayBeCutOff tells whether the client may have cut a prewrite off, or its clean-up, which then
// lands when it will. A client does so on a machine that stands still for seconds.
func (r *result) mayBeCutOff() bool { return r.err != nil && r.took >= cutOffAfter }

// cutOffAfter is how long a failed prewrite waits for the others of the transaction at least: a
// tenth of RequestLifetime.
const cutOffAfter = 3 * time.Second

// cellVersion is a value of a cell, "" for none.
type cellVersion struct {
	ts    tso.Timestamp
	value string
}

// newRun prepares a run whose transaction this process runs.
func (m *matrixEnv) newRun(t testing.TB, s *scenario, sequential bool) *crashRun {
	t.Helper()
	x := m.prepare(t, s, sequential)
	x.connect()
	return x
}

// prepare writes the old values, and does what comes before the transaction.
func (m *matrixEnv) prepare(t testing.TB, s *scenario, sequential bool) *crashRun {
	t.Helper()
	x := m.emptyRun(t, s, sequential, fmt.Sprintf("%05d-", m.runs.Add(1)))
	if !s.fresh {
		x.write("old", "P", "S1", "S2")
	}
	if s.before != nil {
		s.before(x)
	}
	return x
}

// emptyRun has not touched the store.
func (m *matrixEnv) emptyRun(t testing.TB, s *scenario, sequential bool, prefix string) *crashRun {
	x := &crashRun{
		TB: t, ctx: boundedContext(t), env: m, other: m.other, scenario: s, oneByOne: sequential,
		prefix: prefix, rows: map[string]string{}, began: time.Now(),
		history: map[string][]cellVersion{}, foreign: map[tso.Timestamp]bool{}, seen: map[tso.Timestamp]map[string]string{},
		done: make(chan result, 1), struck: make(chan struct{}), hold: percolatortest.NewHold(), zombie: percolatortest.NewHold(),
	}
	for _, name := range []string{"P", "S1", "S2", "W", "X"} {
		c := x.cell(name)
		x.rows[c.Table+"/"+c.Row] = name
	}
	return x
}

// connect makes the client of the transaction.
func (x *crashRun) connect() {
	x.client = x.env.NewClient(percolatortest.Name("victim"), percolatortest.Configure(func(cfg *percolator.Config) {
		if x.oneByOne {
			cfg.MaxParallelism = 1
		}
	}))
	x.faults = x.env.FaultsOf(x.client)
	x.faults.Forget()
	x.own, x.giveUp = context.WithCancel(x.ctx)
}

// end leaves nothing behind that runs.
func (x *crashRun) end() {
	if x.victim != nil {
		x.victim.end()
	}
	if x.client == nil {
		return
	}
	x.faults.Crash()
	x.giveUp()
	x.hold.Drop()
	x.zombie.Drop()
	if err := x.client.Close(); err != nil {
		x.Errorf("closing the client: %v", err)
	}
	x.faults.Forget() // thousands of clients have one test
}

// cell is the cell of a name: W is the one that is notified weakly, X the primary of another
// transaction.
func (x *crashRun) cell(name string) percolator.Cell {
	c := percolator.Cell{Table: "left", Row: x.prefix + name, Column: "plain"}
	switch name {
	case "P":
		c.Column = x.scenario.columns[0]
	case "S1":
		c.Column = x.scenario.columns[1]
	case "S2":
		c.Table, c.Column = "right", x.scenario.columns[2]
	case "W":
		c.Table, c.Column = "right", "poke"
	}
	return c
}

// play runs one cell of the matrix, and returns whether the transaction has committed.
func (m *matrixEnv) play(t *testing.T, c *matrixCell) bool {
	x := m.prepare(t, c.scenario, c.fault.sequential)
	defer x.end()
	x.target = c.target
	if c.actor.needsCommit {
		for range 3 {
			x.older = append(x.older, fixture.MustBegin(t, x.ctx, x.other))
		}
	}
	if c.fault.launch != nil {
		x.victim = c.fault.launch(x, c)
	} else {
		x.connect()
		x.watch(actionsOf(x, c.fault))
		transact := x.transact
		if c.update {
			transact = x.update
		}
		x.send(transact)
	}
	c.fault.unfold(x)
	if x.look(); x.committed != c.passed {
		t.Errorf("%s meets a transaction that has committed: %v, want %v", c.actor.name, x.committed, c.passed)
	}
	c.actor.meet(x)
	if c.fault.rewrites && !c.actor.rewrites {
		x.write("rewritten", "P", "S1", "S2")
	}
	x.resume()
	x.awaitEnd()
	x.check(c.want)
	return x.committed
}

// resume lets the client go on, and delivers what is held.
func (x *crashRun) resume() {
	if x.victim != nil {
		x.victim.resume()
		return
	}
	x.zombie.Release()
	x.faults.Resume()
	x.hold.Release()
}

// lives tells whether the client that was told the outcome could clean up after itself.
func (x *crashRun) lives() bool {
	if x.victim != nil {
		return x.victim.lives()
	}
	return x.own.Err() == nil && !x.faults.Crashed()
}

// victim is a process that runs the transaction.
type victim interface {
	resume()
	awaitEnd() result
	lives() bool
	end()
}

// send runs the transaction on a goroutine of its own.
func (x *crashRun) send(transact func(context.Context) result) {
	go func() {
		started := time.Now()
		r := transact(x.own)
		r.took = time.Since(started)
		x.done <- r
	}()
}

// transact begins the transaction, runs it and commits it.
func (x *crashRun) transact(ctx context.Context) result {
	tx, err := x.client.Begin(ctx)
	if err != nil {
		return result{err: err}
	}
	if err := x.body(ctx, tx); err != nil {
		return result{err: err}
	}
	ts, err := tx.Commit(ctx)
	return result{ts: ts, err: err, attempts: 1}
}

// errAgain ends a second attempt of Update, of which it is only asked whether it comes.
var errAgain = errors.New("the transaction was run again")

// update is transact by Update. A second attempt stands for the conflict that ended the first one.
func (x *crashRun) update(ctx context.Context) (r result) {
	r.ts, r.err = x.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if r.attempts++; r.attempts > 1 {
			return errAgain
		}
		return x.body(ctx, tx)
	})
	return r
}

func (x *crashRun) body(ctx context.Context, tx *percolator.Txn) error {
	x.start.Store(int64(tx.StartTimestamp()))
	if !x.scenario.blind {
		values, err := tx.GetMulti(ctx, x.cell("P"), x.cell("S1"), x.cell("S2"))
		if err != nil {
			return err
		}
		x.read = map[string]string{"P": string(values[0]), "S1": string(values[1]), "S2": string(values[2])}
	}
	if x.scenario.meddle != nil {
		if err := x.scenario.meddle(x); err != nil {
			return err
		}
	}
	return x.buffer(tx)
}

// buffer writes P first: the first cell is the primary.
func (x *crashRun) buffer(tx *percolator.Txn) error {
	values := x.writes()
	for _, name := range []string{"P", "S1", "S2"} {
		var err error
		if value := values[name]; value == "" {
			err = tx.Delete(x.cell(name))
		} else {
			err = tx.Set(x.cell(name), []byte(value))
		}
		if err != nil {
			return err
		}
	}
	if x.scenario.pokes {
		return tx.Notify(x.cell("W"))
	}
	return nil
}

// writes is what the transaction writes; "" is a deletion.
func (x *crashRun) writes() map[string]string {
	w := map[string]string{"P": "new", "S1": "new", "S2": "new"}
	if x.scenario.deletes {
		w["S2"] = ""
	}
	return w
}

func (x *crashRun) startTS() tso.Timestamp { return tso.Timestamp(x.start.Load()) }

// expire moves the clock past the TTL of all locks that the transaction may have placed by now.
func (x *crashRun) expire() { x.env.Clock.Advance(fixture.LockTTL + time.Since(x.began)) }

func (x *crashRun) snapshot() *percolator.Snapshot {
	x.Helper()
	s, err := x.other.Snapshot(x.ctx)
	fixture.Must(x, err)
	return s
}

// awaitEnd waits until the fault has struck, the caller has its answer, and phase two is over.
func (x *crashRun) awaitEnd() {
	x.Helper()
	if x.victim != nil {
		r := x.victim.awaitEnd()
		x.finished = &r
		return
	}
	if x.finished == nil {
		select {
		case r := <-x.done:
			x.finished = &r
		case <-x.ctx.Done():
			x.Fatal("the transaction does not end")
		}
	}
	x.awaitStruck()
	fixture.Must(x, x.client.Flush(x.ctx))
	x.loose = x.own.Err() != nil
}

// awaitEndThenCrash is for clients that would never end phase two.
func (x *crashRun) awaitEndThenCrash() {
	x.Helper()
	select {
	case r := <-x.done:
		x.finished = &r
	case <-x.ctx.Done():
		x.Fatal("the transaction does not end")
	}
	x.awaitStruck()
	x.faults.Crash()
	x.awaitEnd()
	x.loose = true
}

// awaitHeld waits until the target is held, and, if it is a prewrite among others, until those have
// landed: only then does it matter what the next actor makes of them.
func (x *crashRun) awaitHeld() {
	x.Helper()
	x.hold.Wait(x, 1)
	x.loose = true
	if x.target.role == "prewrite" && !x.scenario.doomed && !x.oneByOne {
		fixture.Eventually(x, "the other prewrites", func() bool { return x.ownLocks() == 2 })
	}
	if x.target.where == journalTable {
		fixture.Eventually(x, "the prewrites", func() bool { return x.ownLocks() == 3 })
	}
}

func (x *crashRun) awaitHeldThenCrash() {
	x.Helper()
	x.awaitHeld()
	x.faults.Crash()
	x.awaitEnd()
}

func (x *crashRun) awaitStruck() {
	x.Helper()
	select {
	case <-x.struck:
	case <-x.ctx.Done():
		x.Fatalf("the transaction never sent %s", x.target)
	}
}

// remember adds a committed version of a cell, which is newer than those that are known.
func (x *crashRun) remember(name string, v cellVersion) {
	x.history[name] = append(x.history[name], v)
}

// at is what a snapshot must see.
func (x *crashRun) at(ts tso.Timestamp) map[string]string {
	want := map[string]string{}
	for _, name := range []string{"P", "S1", "S2"} {
		var newest cellVersion
		for _, v := range x.history[name] {
			if v.ts <= ts && v.ts > newest.ts {
				newest = v
			}
		}
		want[name] = newest.value
	}
	return want
}

// wantAt compares what a snapshot has seen.
func (x *crashRun) wantAt(ts tso.Timestamp, got map[string]string) {
	x.Helper()
	if want := x.at(ts); !maps.Equal(got, want) {
		x.Errorf("at %d: %v, want %v; started at %d, committed at %d", ts, got, want, x.startTS(), x.commitTS)
	}
}
