package percolator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func declaredSchema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{
		Name: "stock", Observed: []string{"onhand"}, Weak: []string{"recount"}, Indexes: []percolator.Index{{Name: "by-onhand", Column: "onhand"}},
		Columns: []percolator.ColumnSchema{
			{Name: "onhand", Type: percolator.TypeOrderedInt64}, {Name: "recount"}, {Name: "name", Type: percolator.TypeString},
			{Name: "price", Type: percolator.TypeFloat64}, {Name: "listed", Type: percolator.TypeBool}, {Name: "since", Type: percolator.TypeTime},
			{Name: "count", Type: percolator.TypeInt64}, {Name: "item:*", Type: percolator.TypeJSON}, {Name: "any"},
		},
	}, {Name: "undeclared"}}}
}

// wantTypo checks that a call names the column that was meant.
func wantTypo(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, percolator.ErrInvalidArgument) || !strings.Contains(err.Error(), `did you mean "onhand"?`) {
		t.Errorf("%s of a misspelt column: %v", what, err)
	}
}

// In a table that declares its columns, a misspelt one is an error wherever it is named, and the
// transaction stays usable.
func TestMisspeltColumns(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, declaredSchema())
	ctx := fixture.Context(t)
	wrong := percolator.Cell{Table: "stock", Row: "r", Column: "onhnad"}
	right := percolator.Cell{Table: "stock", Row: "r", Column: "name"}
	for _, opts := range [][]percolator.TxnOption{nil, {percolator.LockReads()}} {
		tx := fixture.MustBegin(t, ctx, env.Client, opts...)
		wantTypo(t, "Set", tx.Set(wrong, nil))
		wantTypo(t, "Insert", tx.Insert(wrong, nil))
		wantTypo(t, "Delete", tx.Delete(wrong))
		wantTypo(t, "Notify", tx.Notify(wrong))
		wantTypo(t, "GetForUpdate", fixture.ErrOf(tx.GetForUpdate(ctx, wrong)))
		wantTypo(t, "Txn.Get", fixture.ErrOf(tx.Get(ctx, wrong)))
		wantTypo(t, "Txn.GetMulti", fixture.ErrOf(tx.GetMulti(ctx, right, wrong)))
		wantTypo(t, "Txn.Scan", fixture.FirstError(tx.Scan(ctx, "stock", percolator.All(), "name", wrong.Column)))
		wantTypo(t, "a typed column", percolator.Int64("stock", wrong.Column).Set(tx, "r", 1))
		fixture.Must(t, tx.Set(right, []byte("bolts")))
		fixture.MustCommit(t, ctx, tx)
	}
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	wantTypo(t, "Get", fixture.ErrOf(s.Get(ctx, wrong)))
	wantTypo(t, "GetMulti", fixture.ErrOf(s.GetMulti(ctx, right, wrong)))
	wantTypo(t, "Scan", fixture.FirstError(s.Scan(ctx, "stock", percolator.All(), wrong.Column)))
	fixture.WantValue(t, ctx, s, right, "bolts")
}

// What is not of a column's type is refused at once, whichever way it comes.
func TestValuesOfAnotherType(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, declaredSchema())
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for column, values := range map[string][2]string{ // one that is of the type, one that is not
		"onhand": {"12345678", "100"}, "count": {"12345678", "123456789"}, "price": {"12345678", ""}, "since": {"12345678", "2026-01-01"},
		"listed": {"\x01", "\x02"}, "name": {"é", "\xff"}, "item:7": {`{"a":1}`, `{"a":}`}, "item:": {"null", ""},
	} {
		cell := percolator.Cell{Table: "stock", Row: "r", Column: column}
		for _, write := range []func(percolator.Cell, []byte) error{tx.Set, tx.Insert} {
			fixture.Must(t, write(cell, []byte(values[0])))
			err := write(cell, []byte(values[1]))
			if fixture.WantErr(t, err, percolator.ErrInvalidArgument); values[1] != "" && strings.Contains(err.Error(), values[1]) {
				t.Errorf("the error shows the value: %v", err)
			}
		}
	}
	fixture.Must(t, tx.Set(percolator.Cell{Table: "stock", Row: "r", Column: "any"}, []byte("\xff\x00")))
	fixture.WantErr(t, percolator.Int64("stock", "name").Set(tx, "r", -1), percolator.ErrInvalidArgument)
	fixture.WantErr(t, percolator.String("stock", "count").Set(tx, "r", "100"), percolator.ErrInvalidArgument)
	fixture.Must(t, percolator.Int64("stock", "count").Set(tx, "r", 100))
	fixture.MustCommit(t, ctx, tx)
}

// Columns may be declared when there is data. What is not of its type, and what is not declared,
// stays readable as bytes; a typed column says that it is damaged.
func TestColumnsDeclaredLater(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testColumnsDeclaredLater)
}

func testColumnsDeclaredLater(t *testing.T) {
	timing := percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second}
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: timing})
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "count", "100", "r", "old", "v")
	create := func(columns ...percolator.ColumnSchema) error {
		s := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: columns}}, Timing: timing}
		return percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...)
	}
	buffered := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, buffered.Set(fixture.Cell("r2", "undeclared soon"), []byte("v")))
	fixture.Must(t, create(percolator.ColumnSchema{Name: "count", Type: percolator.TypeInt64}, percolator.ColumnSchema{Name: "note"}))
	fixture.Eventually(t, "the client knows the new schema", func() bool { return len(env.Client.Schema().Tables[0].Columns) == 2 })
	fixture.WantErr(t, fixture.ErrOf(buffered.Commit(ctx)), percolator.ErrInvalidArgument) // for the column may have been dropped

	for _, opts := range [][]percolator.TxnOption{nil, {percolator.LockReads()}} {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			fixture.WantValue(t, ctx, tx, fixture.Cell("r", "count"), "100")
			var got []string
			for e, err := range tx.Scan(ctx, "t", percolator.All()) {
				fixture.Must(t, err)
				got = append(got, e.Cell.Row+" "+e.Cell.Column+" "+string(e.Value))
			}
			if all := strings.Join(got, ", "); all != "r count 100, r old v" {
				t.Errorf("a scan of whole rows gives %s", all)
			}
			fixture.WantErr(t, fixture.ErrOf(percolator.Int64("t", "count").Get(ctx, tx, "r")), percolator.ErrCorrupt)
			return nil
		}))
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			return fixture.FirstError(tx.Scan(ctx, "t", percolator.All()))
		}, opts...)
		fixture.Must(t, err)
	}
	fixture.WantErr(t, create(), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, create(percolator.ColumnSchema{Name: "count"}, percolator.ColumnSchema{Name: "note"}), percolator.ErrSchemaMismatch)
	fixture.Must(t, create(percolator.ColumnSchema{Name: "count", Type: percolator.TypeInt64}, percolator.ColumnSchema{Name: "note", Type: percolator.TypeString}))
}

// A check of declared columns costs a table that declares none no allocation, and a declared one
// none either.
func TestDeclaredColumnsAllocateNothing(t *testing.T) {
	env := percolatortest.New(t, declaredSchema())
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	value := []byte("12345678")
	allocs := func(c percolator.Cell) float64 {
		fixture.Must(t, tx.Set(c, value))
		return testing.AllocsPerRun(100, func() { fixture.Must(t, tx.Set(c, value)) })
	}
	undeclared := allocs(percolator.Cell{Table: "undeclared", Row: "r", Column: "count"})
	for _, column := range []string{"count", "name", "any"} {
		if n := allocs(percolator.Cell{Table: "stock", Row: "r", Column: column}); n != undeclared {
			t.Errorf("Set of %s allocates %v times, of an undeclared column %v times", column, n, undeclared)
		}
	}
}
