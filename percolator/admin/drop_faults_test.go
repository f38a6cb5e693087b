package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A drop meets a fault at each of its requests, also to the journal and to delete tables, and
// another client calls it again: what is dropped is gone, and nothing else (I26).
func TestDropAndFaultsAtEveryRequest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, what := range []droppedParts{{column: true}, {column: true, index: true, table: true}} {
		for name, fault := range dropFaults {
			t.Run(fmt.Sprint(what, " ", name), func(t *testing.T) {
				t.Parallel()
				sent := map[string]int{}
				dropAt(t, what, func(kind string) bool { sent[kind]++; return false }, fault)
				requests := 0
				for kind, n := range sent {
					requests += n
					for nth := 1; nth <= n && !t.Failed(); nth++ {
						if !fixture.Sampled(fmt.Sprint(what, name, kind, nth)) {
							continue
						}
						seen := 0
						dropAt(t, what, func(k string) bool {
							if k == kind {
								seen++
							}
							return k == kind && seen == nth
						}, fault)
						if t.Failed() {
							t.Logf("at request %d of %s", nth, kind)
						}
					}
				}
				if requests < 40 {
					t.Errorf("faults at %d requests only, of the kinds %v", requests, sent)
				}
			})
		}
	}
}

// dropFaults are what happens to a request; nil: a copy of it arrives at the end of its lifetime.
var dropFaults = map[string]percolatortest.Action{
	"crash":        percolatortest.Crash,
	"lost request": percolatortest.LoseRequest,
	"lost answer":  percolatortest.LoseAnswer,
	"twice":        percolatortest.Duplicate,
	"late copy":    nil,
}

// droppedParts is what one drop takes away.
type droppedParts struct{ column, index, table bool }

func (p droppedParts) String() string {
	var parts []string
	for name, is := range map[string]bool{"column": p.column, "index": p.index, "table": p.table} {
		if is {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// schema is the one before the drop, without what is dropped.
func (p droppedParts) schema() *percolator.Schema {
	people := percolator.Table{Name: "people", Observed: []string{"city"}, Weak: []string{"poke"},
		Columns: []percolator.ColumnSchema{{Name: "city"}, {Name: "mail"}, {Name: "name"}, {Name: "poke"}},
		Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}, {Name: "name", Column: "name"}}}
	if p.column {
		people.Observed, people.Weak = nil, nil
		people.Columns = people.Columns[1:3]
	}
	if p.index {
		people.Indexes = people.Indexes[1:]
	}
	tables := []percolator.Table{people, {Name: "t"}, {Name: "gone", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}}
	if p.table {
		tables = tables[:2]
	}
	return &percolator.Schema{Tables: tables}
}

// dropAt has the first request of a drop for which at says so meet a fault.
func dropAt(t *testing.T, parts droppedParts, at func(kind string) bool, fault percolatortest.Action) {
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.Tables = droppedParts{}.schema().Tables })
		ctx, next := context.Background(), parts.schema()
		next.Timing = env.Client.Schema().Timing
		town(t, ctx, env.Client)
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			return tx.Notify(percolator.Cell{Table: "people", Row: "a", Column: "poke"})
		}))
		fixture.Acknowledge(t, ctx, env.Client, fixture.City.Cell("m3"), "O")
		fixture.Strand(t, ctx, env, percolator.Cell{Table: "gone", Row: "row", Column: "c"}, fixture.Cell("one", "c"), fixture.City.Cell("m1"))
		fixture.Strand(t, ctx, env, fixture.City.Cell("m2"), fixture.Cell("two", "c"))
		before, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		f := newDropFault(env, at, fault)
		_, err = admin.New(f.victim).DropFromSchema(ctx, next, f.options(t, ctx))
		fixture.Must(t, f.victim.Flush(ctx)) // phase two has its requests, too
		f.late.Release()
		if err != nil && !f.hit {
			t.Errorf("without a fault: %v", err)
		}
		env.FaultsOf(f.victim).Crash()
		time.Sleep(fixture.LockTTL)
		checkDropEnded(t, ctx, env, parts, next, before.StartTimestamp())
	})
}

// dropFault has one request of a client that drops something meet a fault.
type dropFault struct {
	env    *percolatortest.Env
	victim *percolator.Client
	at     func(kind string) bool
	fault  percolatortest.Action
	late   *percolatortest.Hold

	mu    sync.Mutex
	idles bool // it waits for a drain: requests are those of any client
	hit   bool
}

func newDropFault(env *percolatortest.Env, at func(kind string) bool, fault percolatortest.Action) *dropFault {
	f := &dropFault{env: env, victim: env.NewClient(), at: at, fault: fault, late: percolatortest.NewHold()}
	handler := func(r percolatortest.Request) percolatortest.Action {
		return f.meet(strings.TrimSpace(r.Method + " " + r.Table))
	}
	env.FaultsOf(f.victim).Handle(handler)
	env.FaultsOf(f.victim).HandleJournal(handler)
	return f
}

func (f *dropFault) meet(kind string) percolatortest.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hit || f.idles || !f.at(kind) {
		return percolatortest.Pass
	}
	f.hit = true
	if f.fault != nil {
		return f.fault
	}
	time.AfterFunc(f.victim.Schema().Timing.RequestLifetime, f.late.Release)
	return f.late.Copy()
}

// options are those of the drop. Tables are deleted by requests that are no client's.
func (f *dropFault) options(t testing.TB, ctx context.Context) admin.DropOptions {
	deleteTable, end, err := meta.TableDeleter(ctx, f.env.Project, f.env.Instance, f.env.Options())
	fixture.Must(t, err)
	t.Cleanup(func() { _ = end() })
	fails := errors.New("the request to delete a table fails")
	return admin.DropOptions{Wait: f.wait, DeleteTable: func(ctx context.Context, name string) error {
		switch f.meet("DeleteTable " + name) {
		case percolatortest.Crash:
			f.env.FaultsOf(f.victim).Crash()
			return fails
		case percolatortest.LoseRequest:
			return fails
		case percolatortest.LoseAnswer:
			return errors.Join(deleteTable(ctx, name), fails)
		case percolatortest.Pass:
			return deleteTable(ctx, name)
		}
		return errors.Join(deleteTable(ctx, name), deleteTable(ctx, name))
	}}
}

func (f *dropFault) wait(ctx context.Context, d time.Duration) error {
	f.idle(true)
	defer f.idle(false)
	return retry.Sleep(ctx, d)
}

func (f *dropFault) idle(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idles = is
}

// checkDropEnded calls the drop again, and looks for what it has left, and what it should have.
func checkDropEnded(t testing.TB, ctx context.Context, env *percolatortest.Env, parts droppedParts, next *percolator.Schema, before tso.Timestamp) {
	t.Helper()
	c := env.NewClient(fixture.ShortRetention)
	opts := admin.DropOptions{ClientOptions: env.Options()}
	fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, next, opts)))
	deleted, err := admin.New(c).DropFromSchema(ctx, next, opts)
	if fixture.Must(t, err); len(deleted) > 0 {
		t.Errorf("the drop had left %v", deleted)
	}
	plan, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.PlanSchema(ctx, next)
	if fixture.Must(t, err); len(plan.Changes) > 0 || len(plan.Stored.Dropping) > 0 {
		t.Errorf("%+v is left to do", plan)
	}
	wantTables := "gone gone.ix people people.mail people.name t"
	if parts.table {
		wantTables = strings.ReplaceAll(wantTables, "gone gone.ix ", "")
	}
	if parts.index {
		wantTables = strings.ReplaceAll(wantTables, "people.mail ", "")
	}
	if now := tables(t, ctx, env); now != wantTables {
		t.Errorf("the tables are %s, not %s", now, wantTables)
	}
	whole := fixture.ListPeople(t, ctx, c, percolator.AsOfTimestamp(before))
	want := whole
	if parts.column {
		want = strings.Join(slices.DeleteFunc(strings.Fields(whole), func(cell string) bool { return strings.HasSuffix(cell, "/city") }), " ")
	}
	if now := fixture.ListPeople(t, ctx, c); now != want || len(strings.Fields(whole)) != 36 {
		t.Errorf("there are %s; before the drop there were %s", now, whole)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("one", "c"), "stranded")
	fixture.WantNow(t, ctx, c, fixture.Cell("two", "c"), "stranded")
	fixture.WantIndex(t, ctx, c, "name")
	if parts.column {
		checkColumnForgotten(t, ctx, env, c, next)
	}
}

// checkColumnForgotten collects, and looks for cells and notifications that the column has left.
func checkColumnForgotten(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client, next *percolator.Schema) {
	t.Helper()
	for range 2 {
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
	}
	fixture.Must(t, env.Store().Open("people").ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for family, items := range r {
			for _, it := range items {
				if column := strings.TrimPrefix(it.Column, family+":"); family == "notify" || column == "city" {
					t.Errorf("%s of row %s is left", it.Column, r.Key())
				}
			}
		}
		return true
	}))
	env.Audit(t, func(cfg *model.AuditConfig) { cfg.Collected, cfg.Schema = true, next })
}

// A column whose drop begins while another call waits for its drain has a drain of its own (I26).
func TestDropLeavesLaterColumnsToTheirDrain(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, droppedParts{}.schema())
	ctx, opts := fixture.Context(t), noWait(env)
	town(t, ctx, env.Client)
	opts.Wait = func(context.Context, time.Duration) error {
		opts.Wait = noWait(env).Wait
		stopped := errors.New("stopped")
		other := noWait(env)
		other.Wait = func(context.Context, time.Duration) error { return stopped }
		fixture.WantErr(t, fixture.ErrOf(admin.New(env.NewClient()).DropFromSchema(ctx, droppedParts{column: true}.schema(), other)), stopped)
		return nil
	}
	opts.Progress = func(p admin.DropPhase) {
		if p == admin.DropColumns {
			t.Error("the column is deleted without a drain")
		}
	}
	deleted, err := admin.New(env.Client).DropFromSchema(ctx, droppedParts{table: true}.schema(), opts)
	if fixture.Must(t, err); fmt.Sprint(deleted) != "[gone gone.ix]" {
		t.Errorf("deleted: %v", deleted)
	}
	opts = noWait(env)
	deleted, err = admin.New(env.Client).DropFromSchema(ctx, droppedParts{column: true, table: true}.schema(), opts)
	if fixture.Must(t, err); fmt.Sprint(deleted) != "[people:city people:poke]" {
		t.Errorf("deleted: %v", deleted)
	}
}

// A deletion of the column that had started before the drop deletes what is older than itself. The
// drop ends it, and deletes the rest.
func TestDropOfAColumnBesideAnEarlierDeletion(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, droppedParts{}.schema())
	ctx, dies := fixture.Context(t), env.NewClient()
	town(t, ctx, env.Client)
	env.FaultsOf(dies).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	opts := small
	opts.Columns = []string{"city"}
	if err := fixture.ErrOf(admin.New(dies).DeleteRange(ctx, "people", percolator.All(), opts)); err == nil {
		t.Fatal("the deletion has come to its end")
	}
	env.Clock.Advance(fixture.LockTTL)
	town(t, ctx, env.Client)
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, droppedParts{column: true}.schema(), noWait(env))))
	if left := fixture.ListPeople(t, ctx, env.Client); strings.Contains(left, "/city") {
		t.Errorf("the drop has left %s", left)
	}
}

// A call that was held up while another one came to the end of the drop deletes nothing of a column
// that has come back, or is being dropped once more.
func TestDropOfAColumnThatHasComeBack(t *testing.T) {
	t.Parallel()
	for name, twice := range map[string]bool{"": false, "dropped again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := percolatortest.New(t, droppedParts{}.schema())
			ctx, dropped, stopped := fixture.Context(t), droppedParts{column: true}.schema(), errors.New("stopped")
			town(t, ctx, env.Client)
			drop := func(c *percolator.Client, wait error) error {
				opts := noWait(env)
				opts.Wait = func(context.Context, time.Duration) error { return wait }
				return fixture.ErrOf(admin.New(c).DropFromSchema(ctx, dropped, opts))
			}
			late := noWait(env)
			late.Wait = func(context.Context, time.Duration) error {
				fixture.Must(t, drop(env.NewClient(), nil))
				fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, droppedParts{}.schema(), env.Options()...))
				town(t, ctx, env.NewClient())
				if twice {
					fixture.WantErr(t, drop(env.NewClient(), stopped), stopped)
				}
				return nil
			}
			deleted, err := admin.New(env.Client).DropFromSchema(ctx, dropped, late)
			if fixture.Must(t, err); len(deleted) > 0 {
				t.Errorf("deleted: %v", deleted)
			}
			if now := fixture.ListPeople(t, ctx, env.NewClient()); strings.Count(now, "/city") != 12 {
				t.Errorf("of the new column there are %s", now)
			}
			stored, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ReadSchema(ctx)
			if fixture.Must(t, err); twice != (len(stored.Dropping) == 2) {
				t.Errorf("being dropped: %v", stored.Dropping)
			}
		})
	}
}
