package observers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestWaitIdleElsewhere: a process without a worker waits for those that have one, and says what is
// left when its time is up.
func TestWaitIdleElsewhere(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	strand(e) // a lock on row z
	e.set(e.client, "a", "in", "1")
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	early, cancel := context.WithCancel(e.ctx)
	looks := 0
	err := observers.WaitIdle(early, e.client, func(left observers.Remaining) {
		if looks++; left != (observers.Remaining{Notifications: 1, Locks: 1}) {
			t.Errorf("%+v is left", left)
		}
		if looks == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "notifications 1, locks on observed cells 1") || looks != 3 {
		t.Fatalf("after %d looks without a worker: %v", looks, err)
	}
	e.Clock.Advance(time.Minute) // the lock is dead
	e.start(e.client, r, observers.Config{})
	if err := observers.WaitIdle(e.ctx, e.NewClient(), nil); err != nil {
		t.Fatal(err)
	}
	if n := j.count("o"); n != 2 {
		t.Errorf("idle after %d runs, want 2", n)
	}
}

// TestWaitIdleElsewhereSeesMovement: a look during which something committed proves nothing, even
// if it found nothing.
func TestWaitIdleElsewhereSeesMovement(t *testing.T) {
	t.Parallel()
	e := newScanEnv(t, table())
	var once atomic.Bool
	looking := e.NewClient(percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" && once.CompareAndSwap(false, true) {
			e.set(e.client, "a", "unobserved", "1")
		}
		return percolatortest.Pass
	}))
	looks := 0
	if err := observers.WaitIdle(e.ctx, looking, func(left observers.Remaining) {
		if looks++; left != (observers.Remaining{}) {
			t.Errorf("%+v is left", left)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if looks != 1 {
		t.Errorf("idle after %d looks that stored no, want 1: the table was written during the first", looks)
	}
	e.closed(looking)
}

// TestWaitIdleByJournalSeesMovement is the same by the journal: something is appended between the
// look at its streams and the look whether there is anything new.
func TestWaitIdleByJournalSeesMovement(t *testing.T) {
	t.Parallel()
	e := newEnv(t, table())
	e.set(e.client, "a", "unobserved", "0") // there is a stream
	looking := e.NewClient()
	if err := observers.WaitIdle(e.ctx, looking, nil); err != nil {
		t.Fatal(err)
	}
	quiet := len(e.FaultsOf(looking).JournalRequests()) // twice the same requests
	var sent atomic.Int64
	e.FaultsOf(looking).HandleJournal(func(percolatortest.Request) percolatortest.Action {
		if sent.Add(1) == int64(quiet/2+1) {
			e.set(e.client, "a", "unobserved", "1")
		}
		return percolatortest.Pass
	})
	looks := 0
	if err := observers.WaitIdle(e.ctx, looking, func(observers.Remaining) { looks++ }); err != nil {
		t.Fatal(err)
	}
	if looks != 1 {
		t.Errorf("idle after %d looks that stored no, want 1: something was appended during the first", looks)
	}
	for _, r := range e.FaultsOf(looking).Requests() {
		if r.Table == "t" && r.Rows == 0 {
			t.Errorf("it read a range of the table: %v", r)
		}
	}
	e.closed(looking)
}

// closed checks that WaitIdle of a closed client says so.
func (e *env) closed(looking *percolator.Client) {
	e.Helper()
	if err := looking.Close(); err != nil {
		e.Fatal(err)
	}
	if err := observers.WaitIdle(e.ctx, looking, nil); !errors.Is(err, percolator.ErrClosed) {
		e.Errorf("of a closed client: %v", err)
	}
}

// A run elsewhere whose entry is older than the look, and that commits while the look is between
// the rows it writes and the row it ran for, does not escape WaitIdle.

func TestWaitIdleSeesARunThatCommitsDuringTheLook(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWaitIdleSeesARunThatCommitsDuringTheLook)
}

func testWaitIdleSeesARunThatCommitsDuringTheLook(t *testing.T) {
	e := newEnv(t, percolator.Table{Name: "a", Observed: []string{"out"}}, table())
	out := percolator.Cell{Table: "a", Row: "r", Column: "out"}
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, _ observers.Change) error { return tx.Set(out, []byte("1")) })
	r.Observe("never", "a", "out", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	c, waiter := e.NewClient(), e.NewClient()
	prewrite, read := percolatortest.NewHold(), percolatortest.NewHold()
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Table == "a" {
			return prewrite
		}
		return percolatortest.Pass
	})
	e.FaultsOf(waiter).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" {
			return read
		}
		return percolatortest.Pass
	})
	e.start(c, r, observers.Config{Columns: []observers.Column{{Table: "t", Name: "in"}}, DisableCollection: true})
	e.set(e.client, "x", "in", "1")
	prewrite.Wait(t, 1)
	e.until("the entry", func() bool { return c.Engine().Journal.Own.Unsettled().Rows > 0 })

	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		idle <- observers.WaitIdle(ctx, waiter, func(left observers.Remaining) {
			t.Logf("%v", left)
			if left.Notifications > 0 {
				cancel()
			}
		})
	}()
	read.Wait(t, 1) // it has looked at the row that is about to be written
	prewrite.Release()
	e.until("the run commits, and its notification is written", func() bool {
		var pending int
		for _, err := range e.client.Engine().Reads.ScanPending(e.ctx, "a", percolator.All()) {
			if err != nil {
				t.Fatal(err)
			}
			pending++
		}
		return pending == 1 && len(e.pending()) == 0
	})
	read.Release()
	if err := <-idle; err == nil {
		t.Error("idle, and a notification is there that nobody has dealt with")
	}
}

// A process that has not heard yet that the journal was turned off does not believe that nothing is
// left because no entry says so.

func TestWaitIdleWithAFormerJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWaitIdleWithAFormerJournal)
}

func testWaitIdleWithAFormerJournal(t *testing.T) {
	schema := func(without bool) *percolator.Schema {
		return &percolator.Schema{
			Tables:         []percolator.Table{{Name: "t", Observed: []string{"seen"}}},
			Timing:         percolator.Timing{MetaMaxAge: time.Minute},
			DisableJournal: without,
		}
	}
	env := percolatortest.New(t, schema(false))
	ctx := fixture.Context(t)
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, schema(true), env.Options()...))
	knows := env.NewClient()
	fixture.Put(t, ctx, knows, "r", "seen", "v")
	fixture.Must(t, knows.Flush(ctx))
	if !env.Client.Engine().Meta.ByJournal() {
		t.Fatal("the client has heard that there is no journal")
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var left *observers.NotIdleError
	if err := observers.WaitIdle(limited, env.Client, nil); !errors.As(err, &left) || left.Left.Notifications != 1 {
		t.Errorf("%v", err)
	}
}

// A chain that another worker moves between two tables: at every instant one cell is dirty.
// WaitIdle must not return.
func TestWaitIdleSeesWorkThatMoves(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "a", Observed: []string{"n"}}, {Name: "b", Observed: []string{"n"}}}}
	env := percolatortest.New(t, schema)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	a, b := percolator.Int64("a", "n"), percolator.Int64("b", "n")
	gate := make(chan struct{})
	hop := func(to percolator.Column[int64]) func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error {
		return func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error {
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
			return to.Set(tx, "row", v-1)
		}
	}
	newWorker := func(c *percolator.Client) *observers.Worker {
		r := observers.NewRegistry()
		observers.Observe(r, "ab", a, hop(b))
		observers.Observe(r, "ba", b, hop(a))
		w, err := observers.NewWorker(c, r, observers.Config{Concurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := newWorker(env.Client)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	if _, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return a.Set(tx, "row", 1000) }); err != nil {
		t.Fatal(err)
	}
	where := "a"
	move := func() { // the dirty cell moves to the other table
		gate <- struct{}{}
		other := map[string]string{"a": "b", "b": "a"}[where]
		for dirty := true; dirty; {
			dirty = false
			for p, err := range env.Client.Engine().Reads.ScanPending(ctx, where, percolator.All()) {
				if err != nil {
					t.Fatal(err)
				}
				dirty = dirty || len(p.Notified)+len(p.Locks) > 0
			}
		}
		if err := env.Client.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		where = other
	}

	client := env.NewClient()
	arrived := make(chan string)
	held := make(chan *percolatortest.Hold, 100)
	env.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && (r.Table == "a" || r.Table == "b") {
			h := percolatortest.NewHold()
			go func() { arrived <- r.Table; held <- h }()
			return h
		}
		return percolatortest.Pass
	})
	idle := make(chan error, 1)
	go func() { idle <- newWorker(client).WaitIdle(ctx) }()
	for range 20 {
		select {
		case table := <-arrived:
			h := <-held
			h.Wait(t, 1)
			if where == table {
				move()
			}
			h.Release()
			continue
		case err := <-idle:
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("WaitIdle returned while the cell in table %q is dirty", where)
		}
		break
	}
	close(gate)
	cancel()
	stop()
	<-done
}

func TestWaitIdleOfAWorkerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	observer, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.idle(observer) // nothing to do
	e.set(e.client, "r", "in", "1")
	waited := make(chan error, 1)
	go func() { waited <- observer.WaitIdle(e.ctx) }()
	e.reads(e.client, 3)
	select {
	case err := <-waited:
		t.Fatalf("WaitIdle returned %v with a notification left", err)
	default:
	}
	e.start(e.NewClient(), r, observers.Config{})
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if j.count("o") != 1 {
		t.Fatalf("%d calls", j.count("o"))
	}
}
