package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// deletionSchema has a table with a unique index, another index and an observed column.
func deletionSchema() *percolator.Schema {
	s := peopleSchema(percolator.Timing{}, "mail", "city")
	s.Tables[0].Observed = []string{"city"}
	return s
}

// small makes a deletion of few rows one of many transactions.
var small = admin.DeleteOptions{RowsPerTransaction: 2, Concurrency: 1, SaveEvery: 2, RowsPerSecond: 1_000_000}

// town are cells of rows a, m0 to m9 and z.
func town(t testing.TB, ctx context.Context, c *percolator.Client) {
	t.Helper()
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		for _, row := range strings.Fields("a m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 z") {
			err := errors.Join(fixture.City.Set(tx, row, "Rome"), fixture.Mail.Set(tx, row, row+"@x"), fixture.Name.Set(tx, row, row))
			if err != nil {
				return err
			}
		}
		return nil
	}))
	fixture.Must(t, c.Flush(ctx))
}

const edges = "a/city a/mail a/name z/city z/mail z/name"

func TestDeleteRange(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, c := fixture.Context(t), env.Client
	town(t, ctx, c)
	before, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	whole := fixture.ListPeople(t, ctx, c)
	a := admin.New(c)

	dry := small
	dry.DryRun = true
	p, err := a.DeleteRange(ctx, "people", percolator.Prefix("m"), dry)
	if fixture.Must(t, err); p.Deleted != 30 || fixture.ListPeople(t, ctx, c) != whole {
		t.Errorf("dry run: %+v, and the table holds %s", p, fixture.ListPeople(t, ctx, c))
	}
	only := small
	only.Columns = []string{"name", "mail", "name"}
	p, err = a.DeleteRange(ctx, "people", percolator.Between("m", "m5"), only)
	if fixture.Must(t, err); p.Deleted != 10 || p.Resumed {
		t.Errorf("two columns: %+v", p)
	}
	notified := fixture.CellsOf(t, ctx, env, "people", "notify")
	p, err = a.DeleteRange(ctx, "people", percolator.Prefix("m"), small)
	fixture.Must(t, err)
	fixture.Must(t, c.Flush(ctx))
	if p.Deleted != 20 || p.Resumed || p.Kept != 0 || fixture.ListPeople(t, ctx, c) != edges {
		t.Errorf("%+v, and the table holds %s", p, fixture.ListPeople(t, ctx, c))
	}
	if n := fixture.CellsOf(t, ctx, env, "people", "notify") - notified; n != 10 {
		t.Errorf("%d notifications of 10 deletions of an observed column", n)
	}
	fixture.WantIndex(t, ctx, c, "mail")
	fixture.WantIndex(t, ctx, c, "city")
	if then := fixture.ListPeople(t, ctx, c, percolator.AsOfTimestamp(before.StartTimestamp())); then != whole {
		t.Errorf("an earlier snapshot shows %s", then)
	}

	// A deletion that has come to its end is not taken up.
	fixture.SetPeople(t, ctx, c, fixture.City, "m5", "Bern")
	p, err = a.DeleteRange(ctx, "people", percolator.Prefix("m"), small)
	if fixture.Must(t, err); p.Deleted != 1 || p.Resumed {
		t.Errorf("once more: %+v", p)
	}
	p, err = a.DeleteRange(ctx, "people", percolator.All(), admin.DeleteOptions{})
	if fixture.Must(t, err); p.Deleted != 6 || fixture.ListPeople(t, ctx, c) != "" {
		t.Errorf("everything: %+v", p)
	}
}

func TestDeleteRangeRefuses(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, a := fixture.Context(t), admin.New(env.Client)
	for _, bad := range []struct {
		table string
		opts  admin.DeleteOptions
		want  error
	}{
		{"nobody", admin.DeleteOptions{}, percolator.ErrSchemaMismatch},
		{"people.mail", admin.DeleteOptions{}, percolator.ErrSchemaMismatch},
		{"people", admin.DeleteOptions{Columns: []string{"a\x00"}}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{Columns: []string{""}}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{Concurrency: 65}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{RowsPerTransaction: 1001}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{CellsPerTransaction: 20_001}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{RowsPerSecond: -1}, percolator.ErrInvalidArgument},
		{"people", admin.DeleteOptions{Columns: manyColumns()}, percolator.ErrTooLarge},
	} {
		fixture.WantErr(t, fixture.ErrOf(a.DeleteRange(ctx, bad.table, percolator.All(), bad.opts)), bad.want)
	}
	var none context.Context
	fixture.WantErr(t, fixture.ErrOf(a.DeleteRange(none, "people", percolator.All(), admin.DeleteOptions{})), percolator.ErrInvalidArgument)
}

func manyColumns() (names []string) {
	for i := range 2000 {
		names = append(names, fmt.Sprint("column-", i))
	}
	return names
}

// What commits after the deletion began stays: where the deletion has not been, and where a writer
// comes between its read and its commit (I29).
func TestDeleteRangeKeepsWhatIsWrittenSince(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, keepWhatIsWrittenSince) // a held request is not given up while the writer computes
}

func keepWhatIsWrittenSince(t *testing.T) {
	env := percolatortest.New(t, deletionSchema())
	ctx, writer := fixture.Context(t), env.NewClient()
	town(t, ctx, env.Client)
	held, met := percolatortest.NewHold(), false
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		// m0 has the primary: with it prewritten, the writer would wait for the deletion.
		if !met && fixture.IsPrewrite(r) && r.Table == "people" && r.Row == "m0" {
			met = true
			return held
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	var p admin.DeleteProgress
	go func() {
		var err error
		p, err = admin.New(env.Client).DeleteRange(ctx, "people", percolator.Prefix("m"), small)
		done <- err
	}()
	row := held.Wait(t, 1)[0].Row
	fixture.SetPeople(t, ctx, writer, fixture.City, row, "Bern", "m8", "Oslo")
	fixture.SetPeople(t, ctx, writer, fixture.Name, "m77", "new")
	held.Release()
	fixture.Must(t, <-done)
	if want := "a/city a/mail a/name " + row + "/city m77/name m8/city z/city z/mail z/name"; fixture.ListPeople(t, ctx, writer) != want {
		t.Errorf("the table holds %s, not %s", fixture.ListPeople(t, ctx, writer), want)
	}
	if p.Deleted != 28 || p.Kept != 3 || p.Conflicts == 0 {
		t.Errorf("%+v", p)
	}
	fixture.WantIndex(t, ctx, writer, "city")
	fixture.WantIndex(t, ctx, writer, "mail")
}

// A row that has more cells than a transaction deletes.
func TestDeleteRangeOfAWideRow(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, c := fixture.Context(t), env.Client
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		for i := range 25 {
			if err := tx.Set(percolator.Cell{Table: "people", Row: "wide", Column: fmt.Sprint(i)}, nil); err != nil {
				return err
			}
		}
		return nil
	}))
	writes := 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) {
			writes++
		}
		return percolatortest.Pass
	})
	p, err := admin.New(c).DeleteRange(ctx, "people", percolator.All(), admin.DeleteOptions{CellsPerTransaction: 10})
	if fixture.Must(t, err); p.Deleted != 25 || writes != 3 || fixture.ListPeople(t, ctx, c) != "" {
		t.Errorf("%+v, in %d transactions", p, writes)
	}
}

// A late copy of the request that stored the beginning of a deletion does not bring it back.
func TestDeleteRangeDoesNotTakeUpWhatIsOver(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, c := fixture.Context(t), env.Client
	town(t, ctx, c)
	late := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if strings.HasPrefix(r.Row, "delete:") && r.Method == "CheckAndMutateRow" {
			return late.Copy()
		}
		return percolatortest.Pass
	})
	fixture.Must(t, fixture.ErrOf(admin.New(c).DeleteRange(ctx, "people", percolator.Prefix("m"), small)))
	if len(late.Requests()) < 3 {
		t.Fatalf("%d requests for the position", len(late.Requests()))
	}
	late.Release()
	town(t, ctx, c)
	p, err := admin.New(c).DeleteRange(ctx, "people", percolator.Prefix("m"), small)
	if fixture.Must(t, err); p.Resumed || p.Deleted != 30 || fixture.ListPeople(t, ctx, c) != edges {
		t.Errorf("%+v, and the table holds %s", p, fixture.ListPeople(t, ctx, c))
	}
}

// A deletion meets a fault at each of its requests, and another client resumes it.
func TestDeleteRangeAndFaultsAtEveryRequest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, fault := range map[string]percolatortest.Action{
		"crash":        percolatortest.Crash,
		"lost request": percolatortest.LoseRequest,
		"lost answer":  percolatortest.LoseAnswer,
		"twice":        percolatortest.Duplicate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[string]int{}
			deleteWithFault(t, func(kind string) bool { kinds[kind]++; return false }, fault)
			requests := 0
			for kind, sent := range kinds {
				requests += sent
				for nth := 1; nth <= sent && !t.Failed(); nth++ {
					if !fixture.Sampled(fmt.Sprint(name, kind, nth)) {
						continue
					}
					n := 0
					deleteWithFault(t, func(k string) bool {
						if k == kind {
							n++
						}
						return k == kind && n == nth
					}, fault)
					if t.Failed() {
						t.Logf("at request %d of %s", nth, kind)
					}
				}
			}
			if requests < 40 {
				t.Errorf("faults at %d requests only, of the kinds %v", requests, kinds)
			}
		})
	}
}

// deleteWithFault has one request of a deletion, the first of which at says so, meet a fault. A
// writer then changes the range, and another client deletes it.
func deleteWithFault(t *testing.T, at func(kind string) bool, fault percolatortest.Action) {
	env := percolatortest.New(t, deletionSchema())
	ctx, victim := fixture.Context(t), env.NewClient()
	town(t, ctx, env.Client)
	hit := false
	env.FaultsOf(victim).Handle(func(r percolatortest.Request) percolatortest.Action {
		if hit || !at(strings.TrimSpace(r.Method+" "+r.Table)) {
			return percolatortest.Pass
		}
		hit = true
		return fault
	})
	first, err := admin.New(victim).DeleteRange(ctx, "people", percolator.Prefix("m"), small)
	fixture.Must(t, victim.Flush(ctx)) // phase two has its requests, too
	if err != nil && (!hit || fault != percolatortest.Crash) {
		t.Errorf("fault: %t, %v", hit, err)
	}
	env.FaultsOf(victim).Crash()
	env.Clock.Advance(fixture.LockTTL)
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "m9", "Bern", "m95", "Oslo")
	second, err := admin.New(env.Client).DeleteRange(ctx, "people", percolator.Prefix("m"), small)
	fixture.Must(t, err)
	want := edges
	if second.Resumed {
		want = "a/city a/mail a/name m9/city m95/city z/city z/mail z/name"
		if second.Before != first.Before && first.Before != 0 {
			t.Errorf("started at %d and resumed at %d", first.Before, second.Before)
		}
	}
	if now := fixture.ListPeople(t, ctx, env.Client); now != want {
		t.Errorf("resumed: %t; the table holds %s", second.Resumed, now)
	}
	fixture.WantIndex(t, ctx, env.Client, "city")
	fixture.WantIndex(t, ctx, env.Client, "mail")
}

// Two that delete the same cells at once are one deletion.
func TestDeleteRangeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, deletionSchema())
	ctx, other := fixture.Context(t), env.NewClient()
	town(t, ctx, env.Client)
	opts, began := small, make(chan struct{})
	opts.SaveEvery = 1
	opts.Progress = func(p admin.DeleteProgress) {
		if p.Deleted > 0 && began != nil {
			close(began)
			began = nil
		}
	}
	waiting := began
	done := make(chan error, 1)
	var one admin.DeleteProgress
	go func() {
		var err error
		one, err = admin.New(env.Client).DeleteRange(ctx, "people", percolator.Prefix("m"), opts)
		done <- err
	}()
	<-waiting
	fixture.Must(t, fixture.ErrOf(admin.New(other).DeleteRange(ctx, "people", percolator.Prefix("m"), small)))
	fixture.Must(t, <-done)
	if one.Before == 0 || fixture.ListPeople(t, ctx, other) != edges {
		t.Errorf("%+v; the table holds %s", one, fixture.ListPeople(t, ctx, other))
	}
	fixture.WantIndex(t, ctx, other, "city")
}
