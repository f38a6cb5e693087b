package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// comesBack sets a value, reads it again, and lists the rows of an index over the column.
func comesBack[T comparable](t *testing.T, c percolator.Column[T], ordered bool, values ...T) {
	t.Helper()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i, v := range values {
		fixture.Must(t, c.Set(tx, fixture.Key(i), v))
	}
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	next := 0
	for e, err := range c.ScanIndex(ctx, s, "city", percolator.All()) {
		if fixture.Must(t, err); ordered && (e.Value != values[next] || e.Cell.Row != fixture.Key(next)) {
			t.Errorf("%T, place %d: %v of %s, want %v", e.Value, next, e.Value, e.Cell.Row, values[next])
		}
		next++
	}
	rows := []string{"none"}
	for i := range values {
		rows = append(rows, fixture.Key(i))
	}
	found, err := c.GetMulti(ctx, s, rows...)
	if err != nil || len(found) != len(values) || next != len(values) {
		t.Errorf("%d values in the index, %d of %d, %v", next, len(found), len(values), err)
	}
	for i, v := range values {
		if got, there := found[fixture.Key(i)]; !there || got != v {
			t.Errorf("%v came back as %v", v, got)
		}
		exactly, err := c.Exactly(v)
		fixture.Must(t, err)
		n := 0
		for e, err := range c.ScanIndex(ctx, s, "city", exactly) {
			if fixture.Must(t, err); e.Cell.Row != fixture.Key(i) {
				t.Errorf("exactly %v is in row %s", v, e.Cell.Row)
			}
			n++
		}
		if n != 1 {
			t.Errorf("exactly %v is in %d rows", v, n)
		}
		if !ordered || i == 0 {
			continue
		}
		below, err := c.Between(values[0], v)
		fixture.Must(t, err)
		n = 0
		for _, err := range c.ScanIndex(ctx, s, "city", below) {
			fixture.Must(t, err)
			n++
		}
		if n != i {
			t.Errorf("%d values from %v to below %v, want %d", n, values[0], v, i)
		}
	}
}

// The values are in the order in which an index has them.
func TestTypedColumnsSort(t *testing.T) {
	t.Parallel()
	comesBack(t, percolator.OrderedInt64("people", "city"), true, math.MinInt64, -256, -1, 0, 1, 255, 256, math.MaxInt64)
	comesBack(t, percolator.Float64("people", "city"), true, math.Inf(-1), -math.MaxFloat64, -1.5, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1e-300, 2, math.Inf(1))
	comesBack(t, percolator.Bool("people", "city"), true, false, true)
	comesBack(t, percolator.Time("people", "city"), true, time.Unix(0, math.MinInt64).UTC(), time.Unix(-1, 999).UTC(), time.Unix(0, 0).UTC(), time.Unix(0, 1).UTC(), time.Unix(0, math.MaxInt64).UTC())
	comesBack(t, percolator.String("people", "city"), true, "a", "a\x00", "a\x00b", "b", "ü")
	comesBack(t, percolator.Int64("people", "city"), true, 0, 1, math.MaxInt64, math.MinInt64, -1) // negative numbers are last
	comesBack(t, percolator.JSON[struct{ A, B int }]("people", "city"), false, struct{ A, B int }{1, 2}, struct{ A, B int }{})
}

// What cannot be encoded is refused where it is written or asked for, and the reason named.
func TestValuesWithoutAnEncoding(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	number, at := percolator.Float64("t", "c"), percolator.Time("t", "c")
	odd := percolator.NewColumn("t", "c", func(n int) ([]byte, error) {
		if n%2 == 0 {
			return nil, errors.New("it is even")
		}
		return []byte{byte(n)}, nil
	}, func(b []byte) (int, error) { return int(b[0]), nil })
	for _, c := range []struct {
		err  error
		want string
	}{
		{number.Set(tx, "r", math.NaN()), "not a number"},
		{number.Insert(tx, "r", math.NaN()), "not a number"},
		{fixture.ErrOf(number.Exactly(math.NaN())), "not a number"},
		{fixture.ErrOf(number.Between(0, math.NaN())), "not a number"},
		{fixture.ErrOf(number.Between(math.NaN(), 0)), "not a number"},
		{at.Set(tx, "r", time.Time{}), "1678"},
		{at.Set(tx, "r", time.Date(2262, 12, 31, 0, 0, 0, 0, time.UTC)), "2262"},
		{odd.Set(tx, "r", 2), "it is even"},
		{percolator.JSON[any]("t", "c").Set(tx, "r", math.Inf(1)), "JSON"},
	} {
		if !errors.Is(c.err, percolator.ErrInvalidArgument) || !strings.Contains(fmt.Sprint(c.err), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
	fixture.Must(t, number.Set(tx, "r", math.Copysign(0, -1)))
	if v, err := number.Get(ctx, tx, "r"); err != nil || math.Signbit(v) {
		t.Errorf("-0 came back as %v, %v", v, err)
	}
	fixture.Must(t, odd.Set(tx, "r", 3))
	if n, err := odd.Get(ctx, tx, "r"); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("12345")))
	fixture.WantErr(t, fixture.ErrOf(at.GetMulti(ctx, tx, "r")), percolator.ErrCorrupt)
	fixture.WantErr(t, fixture.ErrOf(percolator.Bool("t", "c").Get(ctx, tx, "r")), percolator.ErrCorrupt)
	fixture.WantErr(t, fixture.ErrOf(number.GetMulti(context.Background(), tx, "")), percolator.ErrInvalidArgument)
}

// An index over another column is no index of the column, also while it is empty.
func TestTypedIndexOfAnotherColumn(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	name := percolator.String("people", "name")
	empty, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for _, r := range []percolator.Scanner{empty, fixture.MustBegin(t, ctx, env.Client)} {
		fixture.WantErr(t, fixture.FirstError(name.ScanIndex(ctx, r, "city", percolator.All())), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.FirstError(name.ScanWith(ctx, r, percolator.ScanOptions{Index: "city"})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.FirstError(name.ScanIndex(ctx, r, "none", percolator.All())), percolator.ErrSchemaMismatch)
	}
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return fixture.City.Set(tx, "ann", "Rome") }))
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for e, err := range name.ScanIndex(ctx, s, "city", percolator.All()) {
		if !errors.Is(err, percolator.ErrInvalidArgument) || e.Value != "" {
			t.Errorf("%q, %v", e.Value, err)
		}
	}
	n := 0
	for _, err := range s.ScanIndex(ctx, "people", "city", percolator.Exactly([]byte("Rome"))) {
		fixture.Must(t, err)
		n++
	}
	for _, err := range s.ScanIndex(ctx, "people", "city", percolator.Exactly([]byte("Rom"))) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
