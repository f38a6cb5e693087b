package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

type citizen struct {
	Key  string `percolator:",key"`
	Mail string `percolator:"mail"`
	Name string `percolator:"name"`
	City string `percolator:"city"`
}

func people(t testing.TB) percolator.Rows[citizen] {
	t.Helper()
	rows, err := percolator.RowOf[citizen]("people")
	fixture.Must(t, err)
	return rows
}

// keysOf is the keys of a stream's rows, in order.
func keysOf(t testing.TB, stream func(func(citizen, error) bool)) string {
	t.Helper()
	var keys []string
	for p, err := range stream {
		fixture.Must(t, err)
		keys = append(keys, p.Key+"="+p.Name)
	}
	return strings.Join(keys, " ")
}

// An index finds rows, in the order of its values, a transaction's own among them.
func TestRowsByIndex(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), people(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(rows.Insert(tx, citizen{"ann", "a@x", "Ann", "Rome"}), rows.Insert(tx, citizen{"bob", "b@x", "Bob", "Bern"}),
			rows.Insert(tx, citizen{"cid", "c@x", "Cid", "Rome"}), rows.Insert(tx, citizen{"dan", "d@x", "Dan", "Oslo"}))
	}))
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(rows.Put(tx, citizen{"eve", "e@x", "Eve", "Rome"}), fixture.City.Set(tx, "ann", "Bern"), fixture.Name.Set(tx, "cid", "Sid")))
	rome, err := fixture.City.Exactly("Rome")
	fixture.Must(t, err)
	for r, want := range map[percolator.Scanner][4]string{
		s:  {"ann=Ann cid=Cid", "bob=Bob dan=Dan", "cid=Cid ann=Ann dan=Dan", "bob=Bob"},
		tx: {"cid=Sid eve=Eve", "ann=Ann bob=Bob dan=Dan", "eve=Eve cid=Sid dan=Dan", "bob=Bob"},
	} {
		got := [4]string{
			keysOf(t, rows.ScanIndex(ctx, r, "city", rome)),
			keysOf(t, rows.ScanIndex(ctx, r, "city", percolator.Between("B", "P"))),
			keysOf(t, rows.ScanWith(ctx, r, percolator.ScanOptions{Index: "city", Reverse: true, Limit: 3})),
			keysOf(t, rows.GetByIndex(ctx, r, "mail", []byte("b@x"))),
		}
		if got != want {
			t.Errorf("%T: %q, want %q", r, got, want)
		}
	}
	if got := keysOf(t, rows.GetByIndex(ctx, s, "mail", []byte("none"))); got != "" {
		t.Errorf("found %q", got)
	}
	for _, err := range []error{
		fixture.FirstError(rows.GetByIndex(ctx, s, "none", nil)),
		fixture.FirstError(rows.ScanWith(ctx, s, percolator.ScanOptions{Index: "none"})),
	} {
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	}
	// What an index has found is known: Put writes only the field that differs.
	for p, err := range rows.GetByIndex(ctx, tx, "mail", []byte("b@x")) {
		fixture.Must(t, err)
		p.Name = "Rob"
		fixture.Must(t, rows.Put(tx, p))
		for column, want := range map[string]bool{"name": true, "city": false, "mail": false} {
			if _, written, err := tx.Buffered(percolator.Cell{Table: "people", Row: "bob", Column: column}); written != want || err != nil {
				t.Errorf("%s is written: %v, %v", column, written, err)
			}
		}
	}
}

// T need not have the indexed column, and rows without any of T's are left out.
func TestRowsByIndexOfAnotherColumn(t *testing.T) {
	t.Parallel()
	type name struct {
		Key  string `percolator:",key"`
		Name string `percolator:"name"`
	}
	rows, err := percolator.RowOf[name]("people")
	fixture.Must(t, err)
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome", "bob", "Rome", "cid", "Rome")
	fixture.SetPeople(t, ctx, env.Client, fixture.Name, "ann", "Ann", "cid", "Cid")
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	var got []name
	for p, err := range rows.GetByIndex(ctx, s, "city", []byte("Rome")) {
		fixture.Must(t, err)
		got = append(got, p)
	}
	if want := []name{{"ann", "Ann"}, {"cid", "Cid"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Batches double, and stay small where rows are large; who stops early has read one.
func TestRowsByIndexAreReadInBatches(t *testing.T) {
	t.Parallel()
	env, ctx, rows := fixture.NewEnv(t), fixture.Context(t), people(t)
	put := func(city string, n, bytes int) {
		_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
			for i := range n {
				key := city + fixture.Key(i)
				err = errors.Join(err, rows.Insert(tx, citizen{key, key, strings.Repeat("x", bytes), city}))
			}
			return err
		})
		fixture.Must(t, err)
	}
	put("small", 1000, 1)
	put("large", 40, 1<<20)
	fixture.Must(t, env.Client.Flush(ctx))
	read := func(city string, most int) (batches []int) {
		c := env.NewClient()
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		n := 0
		for p, err := range rows.GetByIndex(ctx, s, "city", []byte(city)) {
			fixture.Must(t, err)
			if want := city + fixture.Key(n); p.Key != want {
				t.Fatalf("row %d is %s", n, p.Key)
			}
			if n++; n == most {
				break
			}
		}
		for _, r := range env.FaultsOf(c).Requests() {
			if r.Method == percolatortest.ReadRows && r.Table == "people" {
				batches = append(batches, r.Rows)
			}
		}
		return batches
	}
	for _, c := range []struct {
		city string
		most int
		want string
	}{
		{"small", 1000, "[16 32 64 128 256 504]"},
		{"small", 3, "[16]"},
		{"large", 40, "[16 4 4 4 4 4 4]"},
	} {
		if got := fmt.Sprint(read(c.city, c.most)); got != c.want {
			t.Errorf("%d of %s: batches of %s, want %s", c.most, c.city, got, c.want)
		}
	}
}

// A struct declares its columns, with which everything of it can be stored, and nothing else.
func TestColumnsOfAStruct(t *testing.T) {
	t.Parallel()
	rows, ctx := members(t), fixture.Context(t)
	var got []string
	for _, c := range rows.Columns() {
		got = append(got, c.Name+":"+string(c.Type))
	}
	if want := "name:string kind:string photo:bytes logins:int64 level:ordered_int64 weight:float64 admin:bool born:time tags:json wait:bytes " +
		"nick:string left:time debt:ordered_int64 extra:json"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
	rows.Columns()[0].Name = "another"
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: rows.Columns()}}})
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return rows.Insert(tx, ann()) }))
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	if p, err := rows.Get(ctx, s, "ann"); err != nil || !sameMember(p, ann()) {
		t.Errorf("%+v, %v", p, err)
	}
	fixture.WantErr(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell("ann", "other"), nil) }), percolator.ErrInvalidArgument)
}

// A limit counts rows, also where rows that are left out stand before them.
func TestRowsByIndexOfAnotherColumnToALimit(t *testing.T) {
	t.Parallel()
	type name struct {
		Key  string `percolator:",key"`
		Name string `percolator:"name"`
	}
	rows, err := percolator.RowOf[name]("people")
	fixture.Must(t, err)
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Rome", "bob", "Rome", "cid", "Rome", "dan", "Rome", "eve", "Rome")
	fixture.SetPeople(t, ctx, env.Client, fixture.Name, "bob", "Bob", "dan", "Dan", "eve", "Eve")
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, rows.Delete(tx, "dan"))
	for r, want := range map[percolator.Scanner][2]string{s: {"bob dan", "eve dan"}, tx: {"bob eve", "eve bob"}} {
		for i, reverse := range []bool{false, true} {
			var keys []string
			for p, err := range rows.ScanWith(ctx, r, percolator.ScanOptions{Index: "city", Reverse: reverse, Limit: 2}) {
				fixture.Must(t, err)
				keys = append(keys, p.Key)
			}
			if got := strings.Join(keys, " "); got != want[i] {
				t.Errorf("%T, reverse %v: %q, want %q", r, reverse, got, want[i])
			}
		}
		fixture.WantErr(t, fixture.FirstError(rows.ScanWith(ctx, r, percolator.ScanOptions{Index: "city", Limit: -1})), percolator.ErrInvalidArgument)
	}
}

// A value may be empty, and a transaction may give that of a unique index to another row.
func TestRowsByIndexOfEmptyAndMovedValues(t *testing.T) {
	t.Parallel()
	env, ctx, rows := fixture.NewEnv(t), fixture.Context(t), people(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(rows.Insert(tx, citizen{"ann", "a@x", "Ann", ""}), rows.Insert(tx, citizen{"bob", "b@x", "Bob", "Bern"}))
	}))
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(rows.Delete(tx, "bob"), rows.Put(tx, citizen{"cid", "b@x", "Cid", ""})))
	got := [4]string{
		keysOf(t, rows.GetByIndex(ctx, tx, "city", nil)), keysOf(t, rows.GetByIndex(ctx, tx, "city", []byte("Bern"))),
		keysOf(t, rows.GetByIndex(ctx, tx, "mail", []byte("b@x"))), keysOf(t, rows.ScanIndex(ctx, tx, "mail", percolator.All())),
	}
	if want := [4]string{"ann=Ann cid=Cid", "", "cid=Cid", "ann=Ann cid=Cid"}; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	fixture.MustCommit(t, ctx, tx)
	ended, cancel := context.WithCancel(ctx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	cancel()
	fixture.WantErr(t, fixture.FirstError(rows.ScanIndex(ended, s, "mail", percolator.All())), context.Canceled)
}
