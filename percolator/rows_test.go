package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

type rowKind string

// member has a field of every sort.
type member struct {
	Key    string               `percolator:",key"`
	Name   string               `percolator:"name"`
	Kind   rowKind              `percolator:"kind"`
	Photo  []byte               `percolator:"photo"`
	Logins int                  `percolator:"logins"`
	Level  int16                `percolator:"level,ordered"`
	Weight float64              `percolator:"weight"`
	Admin  bool                 `percolator:"admin"`
	Born   time.Time            `percolator:"born"`
	Tags   map[string][]int     `percolator:"tags,json"`
	Wait   *durationpb.Duration `percolator:"wait"`
	Nick   *string              `percolator:"nick"`
	Left   *time.Time           `percolator:"left"`
	Debt   *int64               `percolator:"debt,ordered"`
	Extra  *[]string            `percolator:"extra,json"`
	Note   string               `percolator:"-"`
	cached int
}

func members(t testing.TB) percolator.Rows[member] {
	t.Helper()
	rows, err := percolator.RowOf[member]("t")
	fixture.Must(t, err)
	return rows
}

func ann() member {
	nick, left, debt, extra := "annie", time.Unix(1e9, 7).UTC(), int64(-5), []string{"x"}
	return member{Key: "ann", Name: "Ann", Kind: "staff", Photo: []byte{0xff, 0}, Logins: -7, Level: -2, Weight: -1.5, Admin: true, Born: time.Unix(0, -1).UTC(),
		Tags: map[string][]int{"a": {1}}, Wait: durationpb.New(time.Minute), Nick: &nick, Left: &left, Debt: &debt, Extra: &extra}
}

// least is a row that has nothing but what is always stored.
func least(key string) member { return member{Key: key, Born: time.Unix(0, 0).UTC()} }

func sameMember(a, b member) bool {
	if a.Wait.AsDuration() != b.Wait.AsDuration() || (a.Wait == nil) != (b.Wait == nil) {
		return false
	}
	a.Wait, b.Wait = nil, nil
	return reflect.DeepEqual(a, b)
}

// What is put comes back, by whichever way it is read.
func TestRowsComeBack(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), members(t)
	zero := least("zero")
	full := ann()
	full.Note, full.cached = "not stored", 7
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(rows.Put(tx, full), rows.Insert(tx, zero), tx.Set(fixture.Cell("other", "unknown"), []byte("v")), tx.Set(fixture.Cell("ann", "unknown"), []byte("kept"))))
	full.Note, full.cached = "", 0
	zero.Photo = []byte{} // nil and empty bytes are one value
	check := func(r percolator.Scanner) {
		t.Helper()
		for _, want := range []member{full, zero} {
			got, err := rows.Get(ctx, r, want.Key)
			if err != nil || !sameMember(got, want) {
				t.Errorf("Get: %+v, %v, want %+v", got, err, want)
			}
		}
		_, err := rows.Get(ctx, r, "other")
		fixture.WantErr(t, err, percolator.ErrNotFound)
		found, err := rows.GetMulti(ctx, r, "zero", "none", "ann", "other", "zero")
		if err != nil || len(found) != 2 || !sameMember(found["ann"], full) || !sameMember(found["zero"], zero) {
			t.Errorf("GetMulti: %+v, %v", found, err)
		}
		var scanned []member
		for p, err := range rows.Scan(ctx, r, percolator.All()) {
			fixture.Must(t, err)
			scanned = append(scanned, p)
		}
		for p, err := range rows.ScanWith(ctx, r, percolator.ScanOptions{Reverse: true, Limit: 1}) {
			fixture.Must(t, err)
			scanned = append(scanned, p)
		}
		if !slices.EqualFunc(scanned, []member{full, zero, zero}, sameMember) {
			t.Errorf("scanned %+v", scanned)
		}
	}
	check(tx)
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	check(s)
	fixture.WantValue(t, ctx, s, fixture.Cell("ann", "unknown"), "kept")
	for range rows.Scan(ctx, s, percolator.All()) {
		break // in the middle
	}
	if _, err := percolator.OrderedInt64("t", "level").Get(ctx, s, "ann"); err != nil {
		t.Error(err)
	}
	if n, err := percolator.Int64("t", "logins").Get(ctx, s, "ann"); err != nil || n != -7 {
		t.Errorf("%d, %v", n, err)
	}

	tx = fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, rows.Delete(tx, "ann"))
	fixture.MustCommit(t, ctx, tx)
	s, err = env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(rows.Get(ctx, s, "ann")), percolator.ErrNotFound)
	fixture.WantValue(t, ctx, s, fixture.Cell("ann", "unknown"), "kept")
}

// A struct that has gained a field reads zero where older rows have no value, and an absent pointer
// stays one.
func TestRowsWithoutSomeColumns(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), members(t)
	fixture.Put(t, ctx, env.Client, "old", "name", "Old")
	tx := fixture.MustBegin(t, ctx, env.Client)
	got, err := rows.Get(ctx, tx, "old")
	if want := (member{Key: "old", Name: "Old"}); err != nil || !sameMember(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got.Admin, got.Born = true, time.Unix(0, 0).AddDate(9999, 0, 0)
	fixture.WantErr(t, rows.Put(tx, got), percolator.ErrInvalidArgument) // a Time that cannot be stored
	if _, written, err := tx.Buffered(fixture.Cell("old", "admin")); written || err != nil {
		t.Errorf("a field was buffered before another one could not be encoded: %v", err)
	}
	got.Born = time.Time{}
	fixture.Must(t, rows.Put(tx, got))
	wantBuffered(t, tx, "old", "admin") // what is zero stays without a value
}

// wantBuffered lists the columns that tx would write or delete in a row.
func wantBuffered(t testing.TB, tx *percolator.Txn, row, want string) {
	t.Helper()
	var got []string
	for _, col := range strings.Fields("name kind photo logins level weight admin born tags wait nick left debt extra") {
		value, written, err := tx.Buffered(fixture.Cell(row, col))
		fixture.Must(t, err)
		switch {
		case written && value == nil:
			got = append(got, "-"+col)
		case written:
			got = append(got, col)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("buffered %q, want %q", got, want)
	}
}

// Put writes what differs from what the transaction knows: what it has read with Get, by whichever
// call, or written. What was only prefetched or scanned does not count, nor what another
// transaction knows.
func TestPutWritesWhatHasChanged(t *testing.T) {
	t.Parallel()
	const all = "name kind photo logins level weight admin born tags wait nick left debt extra"
	for _, whole := range []bool{false, true} {
		env := fixture.NewEnv(t)
		if whole {
			env.Client.Engine().Reads.ReadWholeRowsAfter(0)
		}
		ctx, rows := fixture.Context(t), members(t)
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.Must(t, rows.Put(tx, ann()))
		fixture.MustCommit(t, ctx, tx)
		fixture.Must(t, env.Client.Flush(ctx))
		get := func(tx *percolator.Txn) error { return fixture.ErrOf(rows.Get(ctx, tx, "ann")) }
		for name, c := range map[string]struct {
			before func(tx *percolator.Txn) error
			change func(p *member)
			want   string
		}{
			"nothing changed":  {get, func(*member) {}, ""},
			"one field":        {get, func(p *member) { p.Logins++ }, "logins"},
			"several":          {get, func(p *member) { p.Name, p.Nick, p.Tags = "", nil, nil }, "name tags -nick"},
			"within a pointer": {get, func(p *member) { *p.Debt = 0 }, "debt"},
			"not read":         {func(*percolator.Txn) error { return nil }, func(p *member) { p.Nick = nil }, strings.Replace(all, "nick", "-nick", 1)},
			"scanned": {func(tx *percolator.Txn) error {
				for _, err := range rows.Scan(ctx, tx, percolator.All()) {
					if err != nil {
						return err
					}
				}
				return nil
			}, func(*member) {}, all},
			"one column read": {func(tx *percolator.Txn) error {
				return fixture.ErrOf(tx.Get(ctx, fixture.Cell("ann", "name")))
			}, func(*member) {}, strings.TrimPrefix(all, "name ")},
			"another column read": {func(tx *percolator.Txn) error {
				return fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("ann", "none")))
			}, func(*member) {}, all},
			"read for update": {func(tx *percolator.Txn) error {
				return fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("ann", "kind")))
			}, func(*member) {}, strings.Replace(all, "kind ", "", 1)},
			"several rows read": {func(tx *percolator.Txn) error {
				return fixture.ErrOf(rows.GetMulti(ctx, tx, "bob", "ann"))
			}, func(p *member) { p.Extra = nil }, "-extra"},
			"put twice":        {func(tx *percolator.Txn) error { return rows.Put(tx, ann()) }, func(p *member) { p.Extra = nil }, strings.Replace(all, "extra", "-extra", 1)},
			"deleted, and put": {func(tx *percolator.Txn) error { return rows.Delete(tx, "ann") }, func(p *member) { p.Nick = nil }, strings.Replace(all, "nick", "-nick", 1)},
		} {
			tx := fixture.MustBegin(t, ctx, env.Client)
			fixture.Must(t, c.before(tx))
			p := ann()
			c.change(&p)
			fixture.Must(t, rows.Put(tx, p))
			t.Logf("whole rows: %v, %s", whole, name)
			wantBuffered(t, tx, "ann", c.want)
		}
		// Of a row that was read and is absent, nothing is deleted, also where whole rows say so.
		tx = fixture.MustBegin(t, ctx, env.Client)
		fixture.WantErr(t, fixture.ErrOf(rows.Get(ctx, tx, "bob")), percolator.ErrNotFound)
		fixture.Must(t, rows.Delete(tx, "bob"))
		wantBuffered(t, tx, "bob", "")
		fixture.Must(t, rows.Put(tx, least("bob")))
		wantBuffered(t, tx, "bob", "name kind photo logins level weight admin born tags")
	}
}

// What Put leaves out neither conflicts nor is overwritten.
func TestPutsOfDifferentFieldsDoNotConflict(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), members(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return rows.Put(tx, ann()) }))
	change := func(f func(p *member)) *percolator.Txn {
		tx := fixture.MustBegin(t, ctx, env.Client)
		p, err := rows.Get(ctx, tx, "ann")
		fixture.Must(t, err)
		f(&p)
		fixture.Must(t, rows.Put(tx, p))
		return tx
	}
	first, second, third := change(func(p *member) { p.Name = "first" }), change(func(p *member) { p.Logins = 1 }), change(func(p *member) { p.Name = "third" })
	fixture.MustCommit(t, ctx, first)
	fixture.MustCommit(t, ctx, second)
	fixture.WantErr(t, fixture.ErrOf(third.Commit(ctx)), percolator.ErrConflict)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	if p, err := rows.Get(ctx, s, "ann"); err != nil || p.Name != "first" || p.Logins != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A row is inserted once, whatever of it is there already, and whoever writes a part of it
// meanwhile.
func TestInsertOfRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), members(t)
	fixture.Put(t, ctx, env.Client, "one", "name", "v", "nick", "nick", "v", "unknown", "unknown", "v")
	for row, want := range map[string]error{"one": percolator.ErrExists, "nick": percolator.ErrExists, "unknown": nil, "new": nil} {
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.Must(t, rows.Insert(tx, least(row)))
		if _, err := tx.Commit(ctx); !errors.Is(err, want) {
			t.Errorf("insert of %q: %v, want %v", row, err, want)
		}
	}
	for column, want := range map[string]error{"name": percolator.ErrConflict, "nick": percolator.ErrConflict, "unknown": nil} {
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.Must(t, rows.Insert(tx, least("beside "+column)))
		fixture.Put(t, ctx, env.Client, "beside "+column, column, "v")
		if _, err := tx.Commit(ctx); !errors.Is(err, want) {
			t.Errorf("insert beside a write of %q: %v, want %v", column, err, want)
		}
	}
	tx := fixture.MustBegin(t, ctx, env.Client) // a promise that a later write does not take back
	fixture.Must(t, errors.Join(rows.Insert(tx, least("nick")), rows.Put(tx, least("nick")), tx.Set(fixture.Cell("nick", "nick"), nil)))
	fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrExists)
	tx = fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("nick", "nick"), nil), rows.Insert(tx, least("nick"))))
	fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrExists)
	blind := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
	fixture.WantErr(t, rows.Insert(blind, least("x")), percolator.ErrInvalidArgument)
	fixture.Must(t, rows.Put(blind, least("x")))
	fixture.MustCommit(t, ctx, blind)
	fixture.WantErr(t, rows.Put(blind, least("x")), percolator.ErrTxnDone)
	fixture.WantErr(t, rows.Delete(blind, "x"), percolator.ErrTxnDone)
}

// A row is read with one request, several rows likewise, and what did not change is not written.
func TestRequestsOfRows(t *testing.T) {
	type article struct {
		Key   string  `percolator:",key"`
		Title string  `percolator:"c"`
		Seen  string  `percolator:"seen"`
		Body  *string `percolator:"body"`
	}
	rows, err := percolator.RowOf[article]("t")
	fixture.Must(t, err)
	read := func(g *guard, r percolator.Reader, keys ...string) map[string]article {
		found, err := rows.GetMulti(g.ctx, r, keys...)
		fixture.Must(g, err)
		return found
	}
	runRequestCases(t, []requestCase{
		{name: "get", do: func(g *guard) {
			fixture.Must(g, fixture.ErrOf(rows.Get(g.ctx, g.snapshot(), "r")))
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "get of several", do: func(g *guard) { read(g, g.snapshot(), rowNames(100)...) }, want: cost{"Oracle": 1, "ReadRows 100": 1}},
		{name: "scan", do: func(g *guard) {
			for _, err := range rows.Scan(g.ctx, g.snapshot(), percolator.All()) {
				fixture.Must(g, err)
			}
		}, want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "put without a change", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return rows.Put(tx, read(g, tx, "r")["r"]) })
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "put of a changed field", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				a := read(g, tx, "r")["r"]
				a.Title = "new"
				return rows.Put(tx, a)
			})
			for _, r := range g.env.FaultsOf(g.c).Requests() {
				if r.Sets("lock") && fmt.Sprint(columnsSet(r)) != "[c c]" { // lock and data
					g.Errorf("the prewrite sets %q", columnsSet(r))
				}
			}
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "insert", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return rows.Insert(tx, article{Key: "new"}) })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "put and delete, blindly", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(rows.Put(tx, article{Key: "r"}), rows.Delete(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "CheckAndMutateRow": 2}},
	})
}

// columnsSet lists the columns of which a prewrite sets cells.
func columnsSet(r percolatortest.Request) (columns []string) {
	for _, m := range r.Message.(*btpb.CheckAndMutateRowRequest).FalseMutations {
		if set := m.GetSetCell(); set != nil {
			columns = append(columns, string(set.ColumnQualifier))
		}
	}
	return columns
}

// What RowOf refuses, and the field that it names.
func TestRowOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fixture.ErrOf(percolator.RowOf[int]("t")), "not a struct"},
		{fixture.ErrOf(percolator.RowOf[*member]("t")), "not a struct"},
		{fixture.ErrOf(percolator.RowOf[struct{ A string }]("t")), "field A: it has no tag"},
		{fixture.ErrOf(percolator.RowOf[struct {
			A string `percolator:"a"`
		}]("t")), "key"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
		}]("t")), "no field has a column"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			L string `percolator:",key"`
		}]("t")), "field L: there is a key"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:"k,key"`
		}]("t")), "field K: the key"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K int `percolator:",key"`
		}]("t")), "field K: the key"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key,json"`
		}]("t")), "field K: the key"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K    string `percolator:",key"`
			A, B string `percolator:"a"`
		}]("t")), "field B: another field"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			a string `percolator:"a"`
		}]("t")), "field a: it is not exported"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			hidden
		}]("t")), "field hidden: it is not exported"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A string `percolator:"a,jsn"`
		}]("t")), `field A: "jsn" is no option`},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A string `percolator:""`
		}]("t")), "field A"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A string "percolator:\"a\\x00\""
		}]("t")), "field A"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A []int  `percolator:"a"`
		}]("t")), "field A: []int"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string   `percolator:",key"`
			A **string `percolator:"a"`
		}]("t")), "field A: **string"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A uint64 `percolator:"a"`
		}]("t")), "field A: uint64"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A string `percolator:"a,ordered"`
		}]("t")), "field A: string"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A int    `percolator:"a,ordered,json"`
		}]("t")), "field A: int"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string   `percolator:",key"`
			A chan int `percolator:"a,json"`
		}]("t")), "field A: chan int"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string              `percolator:",key"`
			A durationpb.Duration `percolator:"a"` //nolint:govet // that it is refused is the test
		}]("t")), "field A: durationpb"},
		{fixture.ErrOf(percolator.RowOf[struct {
			K string `percolator:",key"`
			A any    `percolator:"a"`
		}]("t")), "field A: interface"},
	} {
		if !errors.Is(c.err, percolator.ErrInvalidArgument) || !strings.Contains(fmt.Sprint(c.err), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
}

type hidden struct{ A string }

// Values that are not of their field's type are ErrCorrupt, which names the cell and no value.
func TestRowsOfForeignValues(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, rows := fixture.Context(t), members(t)
	for column, value := range map[string]string{"logins": "secret", "level": "\x80\x00\x00\x00\x00\x00\x80\x00", "weight": "secret", "admin": "\x02", "born": "secret", "tags": `{"secret":1}`, "wait": "secret", "left": "x", "debt": "", "extra": "{}"} {
		row := "bad " + column
		fixture.Put(t, ctx, env.Client, row, column, value)
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		_, getErr := rows.Get(ctx, s, row)
		_, multiErr := rows.GetMulti(ctx, s, row)
		scanErr := error(nil)
		for _, err := range rows.Scan(ctx, s, percolator.Row(row)) {
			scanErr = err
		}
		for _, err := range []error{getErr, multiErr, scanErr} {
			if !errors.Is(err, percolator.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), fixture.Cell(row, column).String()) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: %v", column, err)
			}
		}
	}
	tx := fixture.MustBegin(t, ctx, env.Client)
	p := least("x")
	p.Weight = math.NaN()
	fixture.WantErr(t, rows.Put(tx, p), percolator.ErrInvalidArgument)
	fixture.WantErr(t, rows.Put(tx, least("")), percolator.ErrInvalidArgument)
	for _, o := range []percolator.ScanOptions{{Columns: []string{"name"}}, {Columns: []string{"name"}, Index: "city"}} {
		for _, err := range rows.ScanWith(ctx, tx, o) {
			fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		}
	}
	none, err := percolator.RowOf[member]("none")
	fixture.Must(t, err)
	fixture.WantErr(t, none.Put(tx, least("x")), percolator.ErrSchemaMismatch)
	for _, err := range none.Scan(ctx, tx, percolator.All()) {
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	fixture.WantErr(t, fixture.ErrOf(rows.Get(done, tx, "ann")), context.Canceled)
}
