package percolator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

func TestIndexFollowsItsColumn(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	steps := []struct {
		change func(tx *percolator.Txn) error
		want   string
	}{
		{func(tx *percolator.Txn) error { return fixture.City.Set(tx, "ann", "Rome") }, "Rome:ann"},
		{func(tx *percolator.Txn) error { return fixture.City.Set(tx, "bob", "Rome") }, "Rome:ann Rome:bob"},
		{func(tx *percolator.Txn) error { return fixture.City.Set(tx, "bob", "Bern") }, "Bern:bob Rome:ann"},
		{func(tx *percolator.Txn) error { return fixture.City.Set(tx, "bob", "Bern") }, "Bern:bob Rome:ann"},
		{func(tx *percolator.Txn) error { return fixture.City.Insert(tx, "cid", "Bern") }, "Bern:bob Bern:cid Rome:ann"},
		{func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "bob") }, "Bern:cid Rome:ann"},
		{func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "bob") }, "Bern:cid Rome:ann"},
		{func(tx *percolator.Txn) error {
			return errors.Join(fixture.City.Set(tx, "ann", "Oslo"), fixture.City.Delete(tx, "ann"))
		}, "Bern:cid"},
		{func(tx *percolator.Txn) error {
			return errors.Join(fixture.City.Delete(tx, "cid"), fixture.City.Set(tx, "cid", "Bern"))
		}, "Bern:cid"},
		{func(tx *percolator.Txn) error { return fixture.City.Set(tx, "dan", "") }, ":dan Bern:cid"},
		{func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "dan", "Bern") }, ":dan Bern:cid"},
	}
	var snapshots []*percolator.Snapshot
	for i, step := range steps {
		if err := fixture.Update(ctx, c, step.change); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		snapshots = append(snapshots, s)
	}
	for i, s := range snapshots { // each sees its own time, also afterwards
		if got := fixture.ListIndex(t, ctx, s, "city", percolator.All()); got != steps[i].want {
			t.Errorf("after step %d: %q, want %q", i, got, steps[i].want)
		}
	}
}

// Values hold any bytes; they come back in their order, and ranges of values are exact.
func TestIndexOfValuesWithZeroBytes(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	values := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00b", "a\x01", "b", "\xff", "\xff\xff"}
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		for i, v := range values {
			for _, suffix := range []string{"", "\x00", "\x01\xff"} {
				if err := fixture.City.Set(tx, fmt.Sprint("row", i)+suffix, v); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	list := func(r percolator.Range) (got []string) {
		for e, err := range s.ScanIndex(ctx, "people", "city", r) {
			fixture.Must(t, err)
			got = append(got, string(e.Value))
		}
		return got
	}
	ranges := []percolator.Range{percolator.All(), percolator.Prefix("a"), percolator.Prefix("\xff"), percolator.Between("\x00\x00", "a\x00\x01"), percolator.Between("", "\x00")}
	for _, v := range values {
		ranges = append(ranges, percolator.Row(v))
	}
	for _, r := range ranges {
		var want []string
		for _, v := range values {
			if v >= r.Start && (r.End == "" || v < r.End) {
				want = append(want, v, v, v)
			}
		}
		if got := list(r); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("values %q: %q, want %q", r, got, want)
		}
	}
}

func TestUniqueIndex(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	set := func(pairs ...string) error {
		return fixture.Update(ctx, c, func(tx *percolator.Txn) error {
			for i := 0; i < len(pairs); i += 2 {
				if err := fixture.Mail.Set(tx, pairs[i], pairs[i+1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	want := func(what, list string) {
		t.Helper()
		if got := fixture.ListIndexNow(t, ctx, c, "mail", percolator.All()); got != list {
			t.Errorf("%s: %q, want %q", what, got, list)
		}
	}
	fixture.Must(t, set("ann", "a@x", "bob", "b@x"))
	err := set("cid", "a@x")
	fixture.WantErr(t, err, percolator.ErrUnique)
	if !strings.Contains(err.Error(), `/"ann"/"mail" holds this value in index "mail"`) || strings.Contains(err.Error(), "a@x") {
		t.Errorf("the error does not name the other row, or tells the value: %v", err)
	}
	wantUnique(t, err, percolator.UniqueError{Cell: fixture.Mail.Cell("cid"), Index: "mail", Holder: "ann"})
	wantUnique(t, set("cid", "c@x", "dan", "c@x"), percolator.UniqueError{Cell: fixture.Mail.Cell("dan"), Index: "mail", Holder: "cid", Own: true})
	fixture.WantErr(t, set("ann", "b@x"), percolator.ErrUnique)
	want("refused", "a@x:ann b@x:bob")
	fixture.Must(t, set("ann", "a@x"))
	want("the same again", "a@x:ann b@x:bob")
	fixture.Must(t, set("ann", "b@x", "bob", "a@x"))
	want("swapped", "a@x:bob b@x:ann")
	fixture.Must(t, set("cid", "a@x", "bob", "c@x"))
	want("handed over", "a@x:cid b@x:ann c@x:bob")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Delete(tx, "cid"), fixture.Mail.Set(tx, "dan", "a@x"))
	}))
	want("deleted and taken", "a@x:dan b@x:ann c@x:bob")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Set(tx, "eve", "a@x"), fixture.Mail.Delete(tx, "eve"))
	}))
	want("given up again", "a@x:dan b@x:ann c@x:bob")
	fixture.Must(t, set("ann", "z@x", "bob", "b@x", "dan", "c@x", "cid", "a@x"))
	want("rotated", "a@x:cid b@x:bob c@x:dan z@x:ann")
	fixture.Must(t, c.Flush(ctx)) // phase two has no caller that waits for it
	if n := fixture.CellsOf(t, ctx, env, "people", "lock") + fixture.CellsOf(t, ctx, env, "people.mail", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// wantUnique is about the error of a value that is taken.
func wantUnique(t testing.TB, err error, want percolator.UniqueError) {
	t.Helper()
	got, ok := errors.AsType[*percolator.UniqueError](err)
	if !ok || *got != want || !errors.Is(err, percolator.ErrUnique) {
		t.Errorf("%v, which is %+v, want %+v", err, got, want)
	}
}

func TestUniqueIndexUnderConcurrency(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	var won, lost atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, fmt.Sprint("row", g), "a@x") })
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, percolator.ErrUnique):
				lost.Add(1)
			default:
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 15 {
		t.Errorf("%d rows got the value, %d did not", won.Load(), lost.Load())
	}
}

// A transaction sees its own entries, and its own deletions, in the order of values.
func TestScanIndexReadsYourWrites(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.City.Set(tx, "ann", "Rome"), fixture.City.Set(tx, "bob", "Bern"), fixture.City.Set(tx, "cid", "Oslo"), fixture.Mail.Set(tx, "ann", "a@x"))
	}))
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, errors.Join(fixture.City.Set(tx, "ann", "Athens"), fixture.City.Delete(tx, "bob"), fixture.City.Set(tx, "dan", "Oslo"), fixture.Mail.Delete(tx, "ann"), fixture.Mail.Set(tx, "dan", "a@x")))
	if got := fixture.ListIndex(t, ctx, tx, "city", percolator.All()); got != "Athens:ann Oslo:cid Oslo:dan" {
		t.Errorf("all: %q", got)
	}
	if got := fixture.ListIndex(t, ctx, tx, "city", percolator.Between("B", "P")); got != "Oslo:cid Oslo:dan" {
		t.Errorf("a range: %q", got)
	}
	if got := fixture.ListIndex(t, ctx, tx, "mail", percolator.All()); got != "a@x:dan" {
		t.Errorf("handed over: %q", got)
	}
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != "Bern:bob Oslo:cid Rome:ann" {
		t.Errorf("others see %q", got)
	}
	fixture.MustCommit(t, ctx, tx)
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != "Athens:ann Oslo:cid Oslo:dan" {
		t.Errorf("committed: %q", got)
	}
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "people", "none", percolator.All())), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "none", "city", percolator.All())), percolator.ErrSchemaMismatch)
}

// Random changes by several clients, crashes among them: index and column never disagree, in any
// snapshot.
func TestIndexAndColumnAgreeInEverySnapshot(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	var wg sync.WaitGroup
	var done atomic.Bool
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 25 {
				row, value := fmt.Sprint("row", (g+i)%6), fmt.Sprint("city", (g*i)%5)
				err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
					if i%5 == 4 {
						return fixture.City.Delete(tx, row)
					}
					return fixture.City.Set(tx, row, value)
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	go func() { wg.Wait(); done.Store(true) }()
	for last := false; !last; {
		last = done.Load()
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		byColumn, byIndex := map[string]string{}, map[string]string{}
		for e, err := range s.Scan(ctx, "people", percolator.All(), "city") {
			fixture.Must(t, err)
			byColumn[e.Cell.Row] = string(e.Value)
		}
		for e, err := range s.ScanIndex(ctx, "people", "city", percolator.All()) {
			fixture.Must(t, err)
			if other, twice := byIndex[e.Cell.Row]; twice {
				t.Errorf("row %s has two entries, %s and %s", e.Cell.Row, other, e.Value)
			}
			byIndex[e.Cell.Row] = string(e.Value)
		}
		if fmt.Sprint(byColumn) != fmt.Sprint(byIndex) {
			t.Fatalf("at %d the rows hold %v and the index says %v", s.StartTimestamp(), byColumn, byIndex)
		}
	}
}

// An index entry that no row key can hold is known at Set already.
func TestIndexedValueTooLargeIsRefusedAtSet(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	c := percolator.Cell{Table: "people", Row: "ann", Column: "city"}
	fixture.WantErr(t, tx.Set(c, make([]byte, 5000)), percolator.ErrTooLarge)
	fixture.Must(t, tx.Set(c, []byte("Rome")))
	fixture.MustCommit(t, ctx, tx)
}
