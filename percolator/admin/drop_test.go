package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// noWait takes drains for over: for tests in which no client is behind.
func noWait(env *percolatortest.Env) admin.DropOptions {
	return admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return nil }}
}

var onlyT = &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}

func tables(t testing.TB, ctx context.Context, env *percolatortest.Env) string {
	t.Helper()
	a, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = a.Close() }()
	names, err := a.Tables(ctx)
	fixture.Must(t, err)
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "percolator_") })
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestDropTable(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, c, stranger := fixture.Context(t), env.Client, env.NewClient()
	town(t, ctx, c)
	fixture.Put(t, ctx, c, "row=kept")
	tx := fixture.MustBegin(t, ctx, stranger)
	fixture.Must(t, fixture.City.Set(tx, "late", "Rome"))
	fixture.Must(t, tx.Set(fixture.Cell("late", "c"), []byte("late")))
	a := admin.New(c)

	hold, err := a.TakeHold(ctx, 0, time.Hour, "a reader")
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(a.DropFromSchema(ctx, onlyT, noWait(env))), admin.ErrHeld)
	fixture.Must(t, a.ReleaseHold(ctx, hold))
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, onlyT, env.Options()...), percolator.ErrSchemaMismatch)
	if tables(t, ctx, env) != "people people.city people.mail t" {
		t.Errorf("tables: %s", tables(t, ctx, env))
	}

	deleted, err := a.DropFromSchema(ctx, onlyT, noWait(env))
	fixture.Must(t, err)
	if fmt.Sprint(deleted) != "[people people.city people.mail]" || tables(t, ctx, env) != "t" {
		t.Errorf("deleted: %v, left: %s", deleted, tables(t, ctx, env))
	}
	deleted, err = a.DropFromSchema(ctx, onlyT, noWait(env))
	if fixture.Must(t, err); len(deleted) > 0 {
		t.Errorf("deleted once more: %v", deleted)
	}
	_, err = fixture.City.Get(ctx, fixture.MustBegin(t, ctx, c), "a")
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.ErrOf(admin.New(stranger).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch) // and reads the schema
	fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrSchemaMismatch)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	if _, err := s.Get(ctx, fixture.Cell("late", "c")); !errors.Is(err, percolator.ErrNotFound) {
		t.Errorf("half of a transaction: %v", err)
	}
	stored, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ReadSchema(ctx)
	if fixture.Must(t, err); len(stored.Schema.Tables) != 1 || len(stored.Indexes) != 0 || len(stored.Dropping) != 0 {
		t.Errorf("%+v", stored)
	}
	// A snapshot from before the drop must not see an empty table.
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, deletionSchema(), env.Options()...), percolator.ErrSchemaMismatch)
}

func TestDropIndex(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, c := fixture.Context(t), env.Client
	town(t, ctx, c)
	next := peopleSchema(percolator.Timing{}, "city")
	next.Tables[0].Observed = []string{"city"}
	var phases []admin.DropPhase
	opts := noWait(env)
	opts.Progress = func(p admin.DropPhase) { phases = append(phases, p) }
	opts.Wait = func(context.Context, time.Duration) error {
		if len(phases) == 1 { // a client that does not know yet that nobody maintains the index may not read it
			s, err := env.NewClient().Snapshot(ctx)
			fixture.Must(t, err)
			fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "people", "mail", percolator.All())), percolator.ErrSchemaMismatch)
		}
		return nil
	}
	deleted, err := admin.New(c).DropFromSchema(ctx, next, opts)
	fixture.Must(t, err)
	if fmt.Sprint(deleted, phases) != "[people.mail] [close drain resolve delete]" {
		t.Errorf("deleted: %v, phases %v", deleted, phases)
	}
	town(t, ctx, c)
	fixture.WantIndex(t, ctx, c, "city")
	if tables(t, ctx, env) != "people people.city t" {
		t.Errorf("tables: %s", tables(t, ctx, env))
	}
}

// A transaction whose primary is in a table that is dropped is whole in the others, wherever its
// client dies, and wherever the drop meets a fault and is taken up (I26).
func TestDropResolvesWhatDependsOnTheTable(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, way := range []struct {
		name string
		is   func(percolatortest.Request) bool
		want string
	}{
		{"before the commit point", fixture.IsPrewrite, ""},
		{"behind the commit point", fixture.IsCommit, "both"},
	} {
		for _, byPasses := range []bool{false, true} {
			t.Run(fmt.Sprint(way.name, " ", byPasses), func(t *testing.T) {
				t.Parallel()
				for nth, hit := 1, true; hit && !t.Failed(); nth++ {
					hit = dropWithFault(t, way.is, way.want, byPasses, nth)
					if !hit && nth < 5 {
						t.Errorf("faults at %d requests only", nth-1)
					}
				}
			})
		}
	}
}

func dropWithFault(t *testing.T, dies func(percolatortest.Request) bool, want string, byPasses bool, nth int) (hit bool) {
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "gone"}, {Name: "t"}}, DisableJournal: byPasses}
	next := &percolator.Schema{Tables: s.Tables[1:], DisableJournal: byPasses}
	env := percolatortest.New(t, s)
	ctx, dead, victim := fixture.Context(t), env.NewClient(), env.NewClient()
	env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if env.FaultsOf(dead).Crashed() || dies(r) && r.Table == "t" || want != "" && r.Method == "MutateRows" && r.Table == "t" {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, dead)
	fixture.Must(t, tx.Set(percolator.Cell{Table: "gone", Row: "row", Column: "c"}, []byte("both")))
	fixture.Must(t, tx.Set(fixture.Cell("one", "c"), []byte("both")))
	fixture.Must(t, tx.Set(fixture.Cell("two", "c"), []byte("both")))
	_, err := tx.Commit(ctx)
	if (err == nil) != (want != "") {
		t.Fatalf("the commit: %v", err)
	}
	_ = dead.Flush(ctx)
	env.FaultsOf(dead).Crash()
	n := 0
	env.FaultsOf(victim).Handle(func(r percolatortest.Request) percolatortest.Action {
		if n++; n != nth {
			return percolatortest.Pass
		}
		hit = true
		return percolatortest.Crash
	})
	_, err = admin.New(victim).DropFromSchema(ctx, next, noWait(env))
	if (err != nil) != hit {
		t.Errorf("request %d: %v", nth, err)
	}
	env.FaultsOf(victim).Crash()
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, next, noWait(env))))
	if left := tables(t, ctx, env); left != "t" {
		t.Errorf("request %d: the tables are %s", nth, left)
	}
	reader := env.NewClient()
	snap, err := reader.Snapshot(ctx)
	fixture.Must(t, err)
	for _, row := range []string{"one", "two"} {
		v, err := snap.Get(ctx, fixture.Cell(row, "c"))
		if errors.Is(err, percolator.ErrNotFound) {
			err = nil
		}
		if fixture.Must(t, err); string(v) != want {
			t.Errorf("request %d: row %s holds %q, not %q", nth, row, v, want)
		}
	}
	return hit
}

// A transaction that began to commit before its client knew of the drop may commit until the drain
// is over, and is whole then, too (I26).
func TestDropDrains(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "gone"}, {Name: "t"}}}
	env := percolatortest.New(t, s)
	ctx, stranger, held := fixture.Context(t), env.NewClient(), percolatortest.NewHold()
	env.FaultsOf(stranger).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case fixture.IsPrewrite(r) && r.Table == "t":
			return held
		case r.Method == "MutateRows" && r.Table == "t":
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() {
		done <- fixture.Update(ctx, stranger, func(tx *percolator.Txn) error {
			return errors.Join(tx.Set(percolator.Cell{Table: "gone", Row: "row", Column: "c"}, []byte("v")), tx.Set(fixture.Cell("row", "c"), []byte("v")))
		})
	}()
	held.Wait(t, 1)
	waits := 0
	opts := noWait(env)
	opts.Wait = func(_ context.Context, d time.Duration) error {
		if waits++; waits == 1 {
			held.Release()
			if err := <-done; err != nil {
				t.Errorf("the commit: %v", err)
			}
			_ = stranger.Flush(ctx)
		}
		if d < 45*time.Second {
			t.Errorf("wait %d is of %v", waits, d)
		}
		return nil
	}
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, &percolator.Schema{Tables: s.Tables[1:]}, opts)))
	fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell("row", "c"), "v")
}

// A drop leaves schemas with other names alone, also a table that one of them gets meanwhile.
func TestDropBesideOtherSchemas(t *testing.T) {
	t.Parallel()
	ours := &percolator.Schema{Name: "ours", Tables: []percolator.Table{{Name: "gone", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}, {Name: "t", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}}}
	theirs := &percolator.Schema{Name: "theirs", Tables: []percolator.Table{{Name: "a"}}}
	env := percolatortest.New(t, ours)
	ctx := fixture.Context(t)
	create := func(s *percolator.Schema) error {
		return percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...)
	}
	fixture.Must(t, create(theirs))
	opts := noWait(env)
	opts.Progress = func(p admin.DropPhase) {
		if p == admin.DropClose {
			theirs.Tables = append(theirs.Tables, percolator.Table{Name: "b"})
			fixture.Must(t, create(theirs))
		}
	}
	next := &percolator.Schema{Name: "ours", Tables: []percolator.Table{{Name: "t"}}}
	deleted, err := admin.New(env.NewClient()).DropFromSchema(ctx, next, opts)
	if fixture.Must(t, err); strings.Join(deleted, " ") != "gone gone.ix t.ix" || tables(t, ctx, env) != "a b t" {
		t.Errorf("deleted %v, there are %s", deleted, tables(t, ctx, env))
	}
	stored := env.NewClient().Schema()
	fixture.Must(t, create(theirs))
	fixture.Must(t, create(next))
	if !slices.Equal(admin.EncodeSchema(stored), admin.EncodeSchema(env.NewClient().Schema())) {
		t.Errorf("%s", admin.EncodeSchema(stored))
	}
}

// columnsSchema declares columns, two of them observed and one weak.
func columnsSchema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{
		Name: "people", Observed: []string{"city", "name"}, Weak: []string{"poke"}, TTL: time.Hour, NotifyExpired: true,
		Columns: []percolator.ColumnSchema{{Name: "city"}, {Name: "mail"}, {Name: "name"}, {Name: "poke"}, {Name: "x:*"}},
	}}}
}

// A declared column goes with its cells, and what was observed or weak notifies no more: what is
// pending is collected. What is interrupted after any step the next call ends.
func TestDropColumns(t *testing.T) {
	t.Parallel()
	for stop, at := range map[string]admin.DropPhase{"not": "", "before the drain": admin.DropDrain, "before the deletion": admin.DropColumns} {
		t.Run("interrupted "+stop, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { dropColumns(t, at) })
		})
	}
}

func dropColumns(t *testing.T, interruptedAt admin.DropPhase) {
	env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.Tables = columnsSchema().Tables })
	ctx, c := context.Background(), env.Client
	town(t, ctx, c)
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return tx.Notify(percolator.Cell{Table: "people", Row: "a", Column: "poke"})
	}))
	late := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, fixture.City.Set(late, "late", "Rome"))

	next := columnsSchema()
	next.Timing = c.Schema().Timing
	people := &next.Tables[0]
	people.Observed, people.Weak, people.NotifyExpired = nil, nil, false
	people.Columns = slices.DeleteFunc(people.Columns, func(c percolator.ColumnSchema) bool { return c.Name == "city" || c.Name == "poke" })
	none := *next
	none.Tables = []percolator.Table{{Name: "people", TTL: time.Hour}}
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, &none, noWait(env))), percolator.ErrSchemaMismatch) // it would declare nothing

	opts, stopped := noWait(env), errors.New("stopped")
	opts.Wait = func(ctx context.Context, d time.Duration) error { time.Sleep(d); return nil }
	if interruptedAt != "" {
		interrupted, cancel := context.WithCancelCause(ctx)
		first := opts
		first.Progress = func(p admin.DropPhase) {
			if p == interruptedAt {
				cancel(stopped)
			}
		}
		first.Wait = func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }
		if err := fixture.ErrOf(admin.New(c).DropFromSchema(interrupted, next, first)); err == nil {
			t.Error("it was not interrupted")
		}
		stored, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ReadSchema(ctx)
		if fixture.Must(t, err); fmt.Sprint(stored.Dropping) != "[people:city people:poke]" {
			t.Errorf("being dropped: %v", stored.Dropping)
		}
		again := columnsSchema()
		again.Timing = next.Timing
		fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, again, env.Options()...), percolator.ErrSchemaMismatch)
	}
	deleted, err := admin.New(env.NewClient()).DropFromSchema(ctx, next, opts)
	if fixture.Must(t, err); fmt.Sprint(deleted) != "[people:city people:poke]" {
		t.Errorf("deleted: %v", deleted)
	}
	if err := fixture.ErrOf(late.Commit(ctx)); err == nil {
		t.Error("a transaction that began before has written the column")
	}
	fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Set(tx, "a", "Rome") }), percolator.ErrInvalidArgument)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	for e, err := range s.Scan(ctx, "people", percolator.All()) {
		if fixture.Must(t, err); e.Cell.Column == "city" {
			t.Errorf("%s is left", e.Cell)
		}
	}
	plan, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.PlanSchema(ctx, next)
	if fixture.Must(t, err); len(plan.Changes) > 0 || len(plan.Stored.Dropping) > 0 {
		t.Errorf("%+v is left to do", plan)
	}
	for range 2 {
		time.Sleep(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
	}
	if n := fixture.CellsOf(t, ctx, env, "people", "notify"); n != 0 {
		t.Errorf("%d notifications are left", n)
	}
	env.Audit(t, func(cfg *model.AuditConfig) { cfg.Collected, cfg.Schema = true, next })
}

// Where others delete tables of Bigtable, a drop calls them for each table, again after an error.
func TestDropByThoseWhoMayDeleteTables(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		var asked []string
		refused := errors.New("refused")
		opts := noWait(env)
		opts.ClientOptions = nil
		opts.DeleteTable = func(_ context.Context, name string) error {
			if asked = append(asked, name); len(asked) == 2 {
				return refused
			}
			return nil
		}
		fixture.WantErr(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, onlyT, opts)), refused)
		deleted, err := admin.New(env.NewClient()).DropFromSchema(ctx, onlyT, opts)
		fixture.Must(t, err)
		if fmt.Sprint(asked) != "[people people.city people people.city people.mail u]" || fmt.Sprint(deleted) != "[people people.city people.mail u]" {
			t.Errorf("asked for %v, deleted %v", asked, deleted)
		}
		if tables(t, ctx, env) != "people people.city people.mail t u" {
			t.Errorf("tables: %s", tables(t, ctx, env))
		}
	})
}
