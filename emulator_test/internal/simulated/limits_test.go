package simulated_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// TestWhatTheServiceRefusesIsRefused: what the service refuses is refused, and nothing of it is
// applied.
func TestWhatTheServiceRefusesIsRefused(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	changed := func(f func(*store.Mutation)) *store.Mutation {
		m := put("v")
		f(m)
		return m
	}
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		for name, m := range map[string]*store.Mutation{
			"no mutation":        store.NewMutation(1),
			"too many mutations": changed(func(m *store.Mutation) { repeat(100_000, func() { m.Put(layout.DataFamily, "c", 6, nil) }) }),
			"a long column":      changed(func(m *store.Mutation) { m.Put(layout.DataFamily, long(16<<10+1), 5, nil) }),
			"a large value":      changed(func(m *store.Mutation) { m.Put(layout.DataFamily, "d", 5, make([]byte, 100<<20+1)) }),
			"an empty range":     changed(func(m *store.Mutation) { m.EraseBetween(layout.DataFamily, "c", 5, 5) }),
			"before all time":    changed(func(m *store.Mutation) { m.Put(layout.DataFamily, "c", -1, nil) }),
			"after all time":     changed(func(m *store.Mutation) { m.Put(layout.DataFamily, "c", tso.Timestamp(1<<62), nil) }),
		} {
			rows, muts := []string{"other", "row"}, []*store.Mutation{put("v"), m}
			if len(m.Changes()) > 100_000 { // Google's client makes two requests of them
				rows, muts = rows[1:], muts[1:]
			}
			if _, err := p.MutateRows(ctx, "t", rows, muts); code(err) != "InvalidArgument" {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := p.CheckAndMutate(ctx, "t", "row", store.Anything(), nil, m); code(err) != "InvalidArgument" {
				t.Errorf("%s, conditional: %v", name, err)
			}
		}
		for _, row := range []string{"", long(4<<10 + 1)} {
			if _, err := p.write(row); code(err) != "InvalidArgument" {
				t.Errorf("a row key of %d bytes: %v", len(row), err)
			}
			if err := p.create(row); code(err) != "InvalidArgument" {
				t.Errorf("a row key of %d bytes: %v", len(row), err)
			}
			if _, err := p.ReadRow(ctx, "t", row, store.Anything()); code(err) != "InvalidArgument" {
				t.Errorf("a row key of %d bytes: %v", len(row), err)
			}
		}
		var keys []string
		for _, k := range numbered(1000) {
			keys = append(keys, k+long(1000))
		}
		if err := p.ReadRows(ctx, "t", store.Rows{Keys: keys}, store.Anything(), 0, nil, nil); code(err) != "InvalidArgument" {
			t.Errorf("a large request: %v", err)
		}
		if _, err := p.ReadRow(ctx, "t", "row", store.Newest([]string{long(20 << 10)}, 0, 1)); code(err) != "InvalidArgument" {
			t.Errorf("a large filter: %v", err)
		}
		if rows, err := p.read(); len(rows) > 0 || err != nil {
			t.Errorf("%q was applied; %v", rows, err)
		}
	})
}

// The simulated store takes the ids, and as many tables and families, as the service does.
func TestLimitsOfTables(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		for name, want := range map[string]string{long(50): "OK", "_.-": "OK", long(51): "InvalidArgument", "": "InvalidArgument", "-": "InvalidArgument", "a b": "InvalidArgument"} {
			if err := c.CreateTable(name, nil); code(err) != want {
				t.Errorf("%q: %v", name, err)
			}
		}
		for family, want := range map[string]string{long(64): "OK", "-": "OK", long(65): "InvalidArgument", "": "InvalidArgument", "a:b": "InvalidArgument"} {
			if err := c.CreateTable("families", []string{family}); code(err) != want {
				t.Errorf("family %q: %v", family, err)
			}
		}
		if err := c.CreateTable("full", numbered(99)); err != nil {
			t.Error(err)
		}
		if err := c.CreateTable("full", []string{"a", "b"}); code(err) != "InvalidArgument" {
			t.Errorf("101 families: %v", err)
		}
		if err := c.CreateTable("full", []string{"a"}); err != nil {
			t.Errorf("100 families: %v", err)
		}
		for _, name := range numbered(1000 - 4 - len(tables)) {
			if err := c.CreateTable("t"+name, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CreateTable("another", nil); code(err) != "FailedPrecondition" {
			t.Errorf("the 1,001st table: %v", err)
		}
	})
}

// A row does not grow beyond 256 MiB.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		value := make([]byte, 90<<20)
		cells := func(columns ...string) *store.Mutation {
			m := store.NewMutation(len(columns))
			for _, column := range columns {
				m.Put(layout.DataFamily, column, 5, value)
			}
			return m
		}
		if _, err := p.MutateRows(ctx, "t", []string{"r"}, []*store.Mutation{cells("a", "b")}); err != nil {
			t.Fatal(err)
		}
		errs, err := p.MutateRows(ctx, "t", []string{"r", "s"}, []*store.Mutation{cells("c"), cells("c")})
		if err != nil || code(errs[0]) != "FailedPrecondition" || errs[1] != nil {
			t.Errorf("%v, %v", errs, err)
		}
		if _, err := p.CheckAndMutate(ctx, "t", "r", store.Anything(), cells("c"), nil); code(err) != "FailedPrecondition" {
			t.Errorf("conditional: %v", err)
		}
	})
}

// A table takes 300,000 mutations that have no answer yet.
func TestOutstandingMutations(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		m := store.NewMutation(0)
		repeat(100_000, func() { m.Put(layout.DataFamily, "c", 6, nil) })
		var waiting sync.WaitGroup
		for _, row := range []string{"a", "b", "c"} {
			waiting.Go(func() {
				if _, err := p.MutateRows(ctx, "t", []string{row}, []*store.Mutation{m}); err != nil {
					t.Errorf("at the limit: %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := p.write("d"); code(err) != "ResourceExhausted" {
			t.Errorf("beyond it: %v", err)
		}
		if _, err := p.CheckAndMutate(ctx, "t", "d", store.Anything(), nil, put("v")); code(err) != "ResourceExhausted" {
			t.Errorf("beyond it, conditional: %v", err)
		}
		waiting.Wait()
		if _, err := p.write("d"); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

// Families and tables that do not exist are refused; a table gets further families.
func TestMissingFamilies(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		m := put("v")
		m.Put("new", "c", 5, nil)
		errs, err := p.MutateRows(ctx, "t", []string{"a", "b"}, []*store.Mutation{m, put("v")})
		if err != nil || code(errs[0]) != "NotFound" || errs[1] != nil || exists(t, c, "a") || !exists(t, c, "b") {
			t.Error(errs, err)
		}
		if _, err := p.CheckAndMutate(ctx, "t", "a", store.Anything(), m, put("v")); code(err) != "NotFound" || exists(t, c, "a") {
			t.Error(err)
		}
		if _, err := p.SampleKeys(ctx, "none"); code(err) != "NotFound" {
			t.Error(err)
		}
		if err := c.CreateTable("t", []string{"new", layout.DataFamily}); err != nil {
			t.Error(err)
		}
		if _, err := p.CheckAndMutate(ctx, "t", "a", store.Anything(), nil, m); err != nil {
			t.Error(err)
		}
	})
}

// Neither what is written nor what is read shares memory with what is stored.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		value, m := []byte("value"), store.NewMutation(2)
		m.Put(layout.DataFamily, "c", 5, value)
		m.Put(layout.DataFamily, "d", 5, value)
		if _, err := p.MutateRows(ctx, "t", []string{"r"}, []*store.Mutation{m}); err != nil {
			t.Fatal(err)
		}
		copy(value, "other")
		for range 2 {
			r, err := p.ReadRow(ctx, "t", "r", store.WholeRow(0, 1))
			if err != nil || len(r.Items) != 2 || string(r.Items[0].Value) != "value" || string(r.Items[1].Value) != "value" {
				t.Fatal(r, err)
			}
			_ = append(r.Items[0].Value, "more"...)
			if string(r.Items[1].Value) != "value" {
				t.Error("one value runs into another")
			}
			copy(r.Items[0].Value, "read!")
			clear(r.Items)
		}
	})
}

// Of more cells than a query takes the seed chooses.
func TestCellsAreChosen(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		m := store.NewMutation(0)
		for _, column := range numbered(2 * store.WholeRowCells) {
			m.Put(layout.DataFamily, column, 5, nil)
		}
		if _, err := p.MutateRows(ctx, "t", []string{"r"}, []*store.Mutation{m}); err != nil {
			t.Fatal(err)
		}
		one, whole := map[string]bool{}, map[string]bool{}
		for range 100 {
			r, err := p.ReadRow(ctx, "t", "r", store.Anything())
			if err != nil || len(r.Items) != 1 {
				t.Fatal(r, err)
			}
			one[r.Items[0].Column] = true
			if r, err = p.ReadRow(ctx, "t", "r", store.WholeRow(0, 1)); err != nil || len(r.Items) != store.WholeRowCells {
				t.Fatal(r, err)
			}
			all := ""
			for _, it := range r.Items {
				all += it.Column
			}
			whole[all] = true
		}
		if len(one) < 10 || len(whole) < 10 {
			t.Errorf("%d choices of one cell, %d of %d", len(one), len(whole), store.WholeRowCells)
		}
	})
}
