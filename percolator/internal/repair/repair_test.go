package repair_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// torn is a store whose rows a test puts back to what they were.
type torn struct {
	*testing.T
	*percolatortest.Env
	ctx   context.Context
	admin *admin.Admin
	hold  model.Hold
	to    tso.Timestamp
}

// newTorn starts one with short drains.
func newTorn(t *testing.T, opts ...percolatortest.Option) *torn {
	t.Helper()
	return newTornWith(t, percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second}, opts...)
}

func newTornWith(t *testing.T, timing percolator.Timing, opts ...percolatortest.Option) *torn {
	t.Helper()
	schema := fixture.Schema()
	schema.Timing = timing
	env := percolatortest.New(t, schema, opts...)
	return &torn{T: t, Env: env, ctx: fixture.Context(t), admin: admin.New(env.Client)}
}

// now is a timestamp to repair to, with a hold like that of TakeBackupHold. Nothing is under way,
// so it is complete at once.
func (s *torn) now() {
	s.Helper()
	b, err := s.admin.CollectionBounds(s.ctx)
	fixture.Must(s, err)
	s.hold, err = s.admin.TakeHold(s.ctx, b.Safepoint+1, time.Hour, "")
	fixture.Must(s, err)
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(s, err)
}

// save returns what puts a row back to what it is.
func (s *torn) save(table, row string) (putBack func()) {
	s.Helper()
	was, err := s.Store().Open(table).ReadRow(s.ctx, row)
	fixture.Must(s, err)
	return func() {
		mut := bigtable.NewMutation()
		mut.DeleteRow()
		for family, items := range was {
			for _, it := range items {
				mut.Set(family, strings.TrimPrefix(it.Column, family+":"), it.Timestamp, it.Value)
			}
		}
		fixture.Must(s, s.Store().Open(table).Apply(s.ctx, row, mut))
	}
}

func (s *torn) repair(configure ...func(*model.RepairOptions)) model.RepairReport {
	s.Helper()
	opts := model.RepairOptions{To: s.to}
	for _, f := range configure {
		f(&opts)
	}
	r, err := s.admin.Repair(s.ctx, opts)
	fixture.Must(s, err)
	return r
}

// audit fails for what the auditor finds.
func (s *torn) audit() {
	s.Helper()
	s.Audit(s)
}

func cellTime(ts tso.Timestamp) int64 { return layout.CellTime(ts) }

func u(row string) percolator.Cell { return percolator.Cell{Table: "u", Row: row, Column: "n"} }

// pay moves between two accounts in one transaction.
func (s *torn) pay(c *percolator.Client, a, b string) tso.Timestamp {
	s.Helper()
	tx := fixture.MustBegin(s, s.ctx, c)
	fixture.Must(s, tx.Set(u("a"), []byte(a)))
	fixture.Must(s, tx.Set(u("b"), []byte(b)))
	ts := fixture.MustCommit(s, s.ctx, tx)
	fixture.Must(s, c.Flush(s.ctx))
	return ts
}

// dead is a client that never sends phase two.
func (s *torn) dead() *percolator.Client {
	c := s.NewClient()
	s.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	return c
}

// seenOnly is the observed column, without the weak one.
var seenOnly = []observers.Column{{Table: "t", Name: "seen"}}

// work runs a worker that does not collect, until stop has returned.
func (s *torn) work(c *percolator.Client, registry *observers.Registry, cfg observers.Config) (w *observers.Worker, stop func()) {
	s.Helper()
	cfg.DisableCollection = true
	w, err := observers.NewWorker(c, registry, cfg)
	fixture.Must(s, err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return w, func() {
		cancel()
		fixture.Must(s, <-done)
	}
}

func (s *torn) wants(a, b string) {
	s.Helper()
	fixture.WantNow(s, s.ctx, s.Client, u("a"), a)
	fixture.WantNow(s, s.ctx, s.Client, u("b"), b)
}

// Without a repair half of a transaction is there, and nothing says so.
func TestRepairOfHalfATransaction(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfHalfATransaction)
}

func testRepairOfHalfATransaction(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	putBack := s.save("u", "b")
	s.pay(s.Client, "1", "9")
	putBack()
	s.wants("1", "4") // five are gone
	dry, err := s.admin.Repair(s.ctx, model.RepairOptions{To: s.to, DryRun: true})
	fixture.Must(t, err)
	s.wants("1", "4")
	r := s.repair()
	s.wants("6", "4")
	s.audit()
	if r.Records != 1 || r.Data != 1 || dry.Records != r.Records || dry.Data != r.Data || r.Found != 0 {
		t.Errorf("dry %+v, then %+v", dry, r)
	}
	s.pay(s.Client, "5", "5")
	s.wants("5", "5")
}

// A lock whose primary committed at or below the timestamp becomes its record; above it, it goes.
func TestRepairResolvesLocks(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairResolvesLocks)
}

func testRepairResolvesLocks(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("paid"))) // observed
	fixture.Must(t, tx.Set(u("b"), []byte("9")))
	fixture.MustCommit(t, s.ctx, tx)
	s.now()
	late := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, late.Set(u("c"), []byte("late")))
	fixture.Must(t, late.Set(u("d"), []byte("late")))
	fixture.MustCommit(t, s.ctx, late)
	if r := s.repair(); r.RolledForward != 2 || r.RolledBack != 1 || r.Found != 0 {
		t.Errorf("%+v", r)
	}
	s.wants("1", "9")
	fixture.WantNow(t, s.ctx, s.Client, u("c"), "")
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "notify"); n != 1 {
		t.Errorf("%d notifications of the cell that was rolled forward", n)
	}
	s.audit()
}

// A primary that says nothing decides nothing while a record at or below the timestamp is
// elsewhere.
func TestRepairBelievesARecordElsewhere(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBelievesARecordElsewhere)
}

func testRepairBelievesARecordElsewhere(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	gone := s.save("u", "a")
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	for _, row := range []string{"a", "b", "c"} {
		fixture.Must(t, tx.Set(u(row), []byte("x")))
	}
	commit := fixture.MustCommit(t, s.ctx, tx)
	fixture.Must(t, s.resolve("b"))
	s.now()
	gone() // the primary's row was cut off before it was prewritten, so the timestamp is wrong
	r := s.repair()
	if r.RolledForward != 1 || r.Found != 1 || r.Findings[0].Cell != u("c") || r.Findings[0].Commit != commit || r.Findings[0].Start != tx.StartTimestamp() {
		t.Errorf("%+v", r)
	}
	fixture.WantNow(t, s.ctx, s.Client, u("c"), "x")
	fixture.WantNow(t, s.ctx, s.Client, u("a"), "6") // what was never there stays away
}

// resolve resolves the lock of a row of u.
func (s *torn) resolve(row string) error {
	for p, err := range s.admin.ScanPending(s.ctx, "u", percolator.All()) {
		if err != nil {
			return err
		}
		for _, l := range p.Locks {
			if l.Cell.Row == row {
				_, err := s.admin.ResolveLock(s.ctx, l)
				return err
			}
		}
	}
	return errors.New("no lock")
}

// Locks that contradict the protocol are reported and left alone; above the timestamp they go.
func TestRepairOfStrangeLocks(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfStrangeLocks)
}

func testRepairOfStrangeLocks(t *testing.T) {
	s := newTorn(t)
	fixture.Put(t, s.ctx, s.Client, "r", "c", "old")
	start, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	elsewhere := func(start tso.Timestamp) string {
		l := layout.LockRecord{StartTS: start, Kind: layout.KindPut, Primary: percolator.Cell{Table: "absent", Row: "r", Column: "c"}, Placed: start, TTL: time.Second}
		return string(l.Encode())
	}
	fixture.Plant(t, s.ctx, s.Env, "t", "foreign", "lock", "c", cellTime(start), elsewhere(start))
	fixture.Plant(t, s.ctx, s.Env, "t", "broken", "lock", "c", cellTime(start), "?")
	s.now()
	after, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	fixture.Plant(t, s.ctx, s.Env, "t", "foreign2", "lock", "c", cellTime(after), elsewhere(after))
	fixture.Plant(t, s.ctx, s.Env, "t", "broken2", "lock", "c", cellTime(after), "?")
	fixture.Plant(t, s.ctx, s.Env, "t", "broken2", "data", "c", cellTime(after), "above")
	r, err := s.admin.Repair(s.ctx, model.RepairOptions{To: s.to})
	fixture.WantErr(t, err, admin.ErrRepairFindings)
	if r.Found != 2 || r.Audited != 2 {
		t.Errorf("%+v", r)
	}
	fixture.WantErr(t, fixture.ErrOf(s.get(u("a"))), admin.ErrRepairing)
	s.repair(func(o *model.RepairOptions) { o.DespiteFindings = true })
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "c"), "old")
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "lock"); n != 2 {
		t.Errorf("%d locks are left", n)
	}
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "data"); n != 1 {
		t.Errorf("%d values are left", n)
	}
}

func (s *torn) get(c percolator.Cell) ([]byte, error) {
	snap, err := s.Client.Snapshot(s.ctx)
	if err != nil {
		return nil, err
	}
	return snap.Get(s.ctx, c)
}

// What observers did above the timestamp they do again, and only that.
func TestRepairNotifiesAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairNotifiesAgain)
}

func testRepairNotifiesAgain(t *testing.T) {
	s := newTorn(t)
	ran := make(chan string, 100)
	registry := observers.NewRegistry()
	for _, name := range []string{"o", "p"} {
		registry.Observe(name, "t", "seen", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			ran <- name + string(ch.Cell.Row)
			return nil
		})
	}
	registry.Observe("weak", "t", "poke", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		ran <- "weak" + ch.Cell.Row
		return nil
	})
	work := func(want ...string) {
		t.Helper()
		w, stop := s.work(s.Client, registry, observers.Config{})
		fixture.Must(t, w.WaitIdle(s.ctx))
		stop()
		var got []string
		for len(ran) > 0 {
			got = append(got, <-ran)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("ran %q, want %q", got, want)
		}
	}
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	work("o1", "p1")
	s.now()
	fixture.Must(t, s.refresh())
	tx := fixture.MustBegin(t, s.ctx, s.Client)
	fixture.Must(t, tx.Set(fixture.Cell("2", "seen"), []byte("b")))
	fixture.Must(t, tx.Notify(fixture.Cell("2", "poke")))
	fixture.MustCommit(t, s.ctx, tx)
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	work("o2", "p2", "weak2")
	fixture.Put(t, s.ctx, s.Client, "3", "seen", "above")
	fixture.Must(t, s.Client.Engine().Commits.SetObserverStates(s.ctx, model.ObserverState{Cell: fixture.Cell("2", "seen"), Observer: "o", Through: s.to, Done: true}))
	if r := s.repair(); r.Renotified != 1 || r.WeakRenotified != 1 || r.States != 1 || len(r.Weak) != 0 {
		t.Errorf("%+v", r)
	}
	s.audit()
	work("o2", "p2", "weak2")
}

// A copy may hold the lock of a run's acknowledgment, and no longer the notification: who knew that
// the run had committed elsewhere has erased it. The lock goes, and the observer runs again.
func TestRepairNotifiesAgainWhereAnAcknowledgmentIsLocked(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairNotifiesAgainWhereAnAcknowledgmentIsLocked)
}

func testRepairNotifiesAgainWhereAnAcknowledgmentIsLocked(t *testing.T) {
	s := newTorn(t)
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("by the run")))
	_, err := (*commit.Txn)(tx).Acknowledge(s.ctx, fixture.Cell("1", "seen"), "o", []string{"o"})
	fixture.Must(t, err)
	fixture.MustCommit(t, s.ctx, tx)
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn(layout.NotifyFamily, "seen")
	fixture.Must(t, s.Store().Open("t").Apply(s.ctx, "1", mut))
	if r := s.repair(); r.RolledBack != 1 || r.Renotified != 1 || r.Records != 1 {
		t.Errorf("%+v", r)
	}
	s.audit()
	ran := 0
	registry := observers.NewRegistry()
	registry.Observe("o", "t", "seen", func(context.Context, *percolator.Txn, observers.Change) error {
		ran++
		return nil
	})
	registry.Observe("weak", "t", "poke", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	w, stop := s.work(s.Client, registry, observers.Config{})
	fixture.Must(t, w.WaitIdle(s.ctx))
	stop()
	if ran != 1 {
		t.Errorf("the observer ran %d times, want once", ran)
	}
}

// What a repair notifies again, since a lock of an acknowledgment goes, makes no observer run that
// has acknowledged the change before.
func TestRepairOfALockedAcknowledgmentRunsOthersNoMore(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfALockedAcknowledgmentRunsOthersNoMore)
}

func testRepairOfALockedAcknowledgmentRunsOthersNoMore(t *testing.T) {
	s := newTorn(t)
	acknowledge := func(c *percolator.Client, row string, by ...string) {
		tx := fixture.MustBegin(t, s.ctx, c)
		fixture.Must(t, tx.Set(u(row), []byte("by the run")))
		for _, o := range by {
			_, err := (*commit.Txn)(tx).Acknowledge(s.ctx, fixture.Cell(row, "seen"), o, []string{o})
			fixture.Must(t, err)
		}
		fixture.MustCommit(t, s.ctx, tx)
	}
	for _, row := range []string{"all", "some"} {
		fixture.Put(t, s.ctx, s.Client, row, "seen", "a")
	}
	acknowledge(s.Client, "all", "o", "p")
	acknowledge(s.Client, "some", "o")
	fixture.Must(t, s.Client.Flush(s.ctx))
	s.now()
	dead := s.dead()
	for _, row := range []string{"all", "some"} {
		acknowledge(dead, row, "p")
		mut := bigtable.NewMutation()
		mut.DeleteCellsInColumn(layout.NotifyFamily, "seen")
		fixture.Must(t, s.Store().Open("t").Apply(s.ctx, row, mut))
	}
	if r := s.repair(); r.RolledBack != 1 || r.Renotified != 1 { // who has acknowledged locks nothing
		t.Errorf("%+v", r)
	}
	s.audit()
	var ran []string
	registry := observers.NewRegistry()
	for _, o := range []string{"o", "p"} {
		registry.Observe(o, "t", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			ran = append(ran, o+" "+ch.Cell.Row)
			return nil
		})
	}
	registry.Observe("weak", "t", "poke", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	w, stop := s.work(s.Client, registry, observers.Config{})
	fixture.Must(t, w.WaitIdle(s.ctx))
	stop()
	if !slices.Equal(ran, []string{"p some"}) {
		t.Errorf("ran %q, want p of some only", ran)
	}
}

// refresh makes the client learn of the hold.
func (s *torn) refresh() error {
	_, err := s.Client.Engine().Meta.Refresh(s.ctx)
	return err
}

// What percolator_meta says of other times is put right.
func TestRepairOfTheMetaTable(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfTheMetaTable)
}

func testRepairOfTheMetaTable(t *testing.T) {
	s := newTorn(t)
	s.now()
	person := percolator.Cell{Table: "people", Row: "ann", Column: "name"}
	fixture.Must(t, fixture.Update(s.ctx, s.Client, func(tx *percolator.Txn) error { return tx.Set(person, []byte("Ann")) }))
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	fixture.Collect(t, s.ctx, s.Client) // whose position is for rows that are older now
	later, err := s.admin.TakeHold(s.ctx, 0, time.Hour, "above")
	fixture.Must(t, err)
	fixture.Must(t, s.admin.SaveLoadPosition(s.ctx, "load", nil, []byte("7")))
	grown := s.Client.Schema()
	more := *grown
	more.Tables = slices.Clone(grown.Tables)
	at := slices.IndexFunc(more.Tables, func(t percolator.Table) bool { return t.Name == "people" })
	more.Tables[at].Indexes = append(slices.Clone(more.Tables[at].Indexes), percolator.Index{Name: "name", Column: "name"})
	fixture.Must(t, percolator.CreateSchema(s.ctx, s.Project, s.Instance, &more, s.Options()...))
	_, err = s.admin.BackfillIndex(s.ctx, "people", "name", admin.BackfillOptions{})
	fixture.Must(t, err)
	r := s.repair()
	if !slices.Equal(r.Building, []string{"people.name"}) || r.Holds != 1 || r.Positions != 2 {
		t.Errorf("%+v", r)
	}
	holds, err := s.admin.Holds(s.ctx)
	fixture.Must(t, err)
	if len(holds) != 1 || holds[0].ID != s.hold.ID || holds[0].ID == later.ID {
		t.Errorf("holds %+v", holds)
	}
	if b, err := s.admin.LoadPosition(s.ctx, "load"); err != nil || b != nil {
		t.Errorf("the load is at %q, %v", b, err)
	}
	_, err = s.admin.BackfillIndex(s.ctx, "people", "name", admin.BackfillOptions{})
	fixture.Must(t, err)
	v, err := s.admin.VerifyIndex(s.ctx, "people", "name", admin.VerifyIndexOptions{})
	fixture.Must(t, err)
	if v.Damaged() != 0 || v.Entries != 1 {
		b, _ := json.Marshal(v)
		t.Errorf("%s", b)
	}
}
