package percolator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// fuzzStore is a store with table t, for fuzzing against the emulator.
func fuzzStore(f *testing.F) *store {
	f.Helper()
	em, err := emulator.Start()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { em.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := CreateSchema(ctx, "p", "i", &Schema{Tables: []Table{{Name: "t"}}}, em.ClientOptions()...); err != nil {
		f.Fatal(err)
	}
	c, err := NewClient(ctx, Config{Project: "p", Instance: "i", Oracle: &counter{}}, em.ClientOptions()...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c.store
}

// plantedCell is one version, as the filters see it.
type plantedCell struct {
	family, column string
	ts             tso.Timestamp
}

// FuzzFilters asks the emulator what the filters let through of a row with the columns a, b and other at timestamps around start, and
// compares that with what they are for.
func FuzzFilters(f *testing.F) {
	s := fuzzStore(f)
	for i, c := range awkwardColumns {
		f.Add(c, awkwardColumns[(i+1)%len(awkwardColumns)], awkwardColumns[(i+7)%len(awkwardColumns)], uint16(i))
	}
	f.Add("a", "a", "aa", uint16(0))
	f.Add(strings.Repeat("\xff", MaxColumnBytes), strings.Repeat(".", MaxColumnBytes), strings.Repeat("*", MaxColumnBytes), uint16(9))
	rows := 0
	f.Fuzz(func(t *testing.T, a, b, other string, at uint16) {
		for _, column := range []string{a, b, other} {
			if validateColumn(Cell{"t", "r", column}) != nil {
				return
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rows++
		row, start := fmt.Sprint("row", rows), tso.Timestamp(at)+2
		var cells []plantedCell
		mut := bigtable.NewMutation()
		for _, column := range slices.Compact(slices.Sorted(slices.Values([]string{a, b, other}))) {
			for _, family := range []string{dataFamily, lockFamily, writeFamily, notifyFamily} {
				for _, ts := range []tso.Timestamp{start - 1, start, start + 1} {
					cells = append(cells, plantedCell{family, column, ts})
					mut.Set(family, column, cellTime(ts), encodeWrite(ts, kindRollback))
				}
			}
		}
		if err := s.table("t").Apply(ctx, row, mut); err != nil {
			t.Fatal(err)
		}
		defer func() {
			gone := bigtable.NewMutation()
			gone.DeleteRow()
			if err := s.table("t").Apply(ctx, row, gone); err != nil {
				t.Error(err)
			}
		}()
		check := func(what string, filter bigtable.Filter, want func(c plantedCell) bool) {
			t.Helper()
			r, err := s.readRow(ctx, "t", row, filter)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			got := map[plantedCell]int{}
			for family, items := range r {
				for _, it := range items {
					got[plantedCell{family, strings.TrimPrefix(it.Column, family+":"), tso.Timestamp(it.Timestamp / 1000)}]++
				}
			}
			for _, c := range cells {
				if (got[c] == 1) != want(c) || got[c] > 1 {
					t.Errorf("%s of %q and %q beside %q at %d: %+v comes %d times, want %v", what, a, b, other, start, c, got[c], want(c))
				}
			}
		}
		is := func(columns ...string) func(c plantedCell) bool {
			return func(c plantedCell) bool { return slices.Contains(columns, c.column) }
		}
		conflict := func(among func(c plantedCell) bool, first bool) func(c plantedCell) bool {
			return func(c plantedCell) bool {
				return among(c) && (c.family == lockFamily && (first || c.ts != start) || c.family == writeFamily && c.ts >= start)
			}
		}
		few := slices.Compact([]string{a, b}) // who reads more than the newest version names each column once
		many := append(slices.Clip(few), "never 1", "never 2", "never 3", "never 4")
		for what, columns := range map[string][]string{"one column": {a}, "two columns": few, "many columns": many} {
			read := is(columns...)
			check("a read of "+what, snapshotFilter(columns, start, 1), func(c plantedCell) bool {
				return read(c) && c.ts == start && (c.family != notifyFamily || rangesOf(columns) == nil)
			})
			check("a read without bound of "+what, snapshotFilter(columns, 0, 2), func(c plantedCell) bool {
				return read(c) && c.ts >= start && (c.family != notifyFamily || rangesOf(columns) == nil)
			})
			check("the conflict of "+what, conflictFilter(columns, start, false), conflict(read, false))
			check("the conflict, at first, of "+what, conflictFilter(columns, start, true), conflict(read, true))
		}
		first, last := min(a, b), max(a, b)
		between := func(c plantedCell) bool { return c.column >= first && c.column <= last }
		check("the span", spanFilter(first, last, start, false), conflict(between, false))
		check("the span, at first", spanFilter(first, last, start, true), conflict(between, true))
		check("the lock", lockFilter(a, start), func(c plantedCell) bool { return c == plantedCell{lockFamily, a, start} })
		check("the record", startFilter(a, start), func(c plantedCell) bool { return c == plantedCell{writeFamily, a, start} })
		check("the primary", primaryFilter(a, start), func(c plantedCell) bool {
			return c.column == a && c.ts == start && (c.family == lockFamily || c.family == writeFamily)
		})
	})
}

// FuzzChunks: however a row's columns are called, requests name each of them exactly once, in order, and their patterns fit.
func FuzzChunks(f *testing.F) {
	f.Add("a", "b", uint16(3), uint16(0))
	f.Add(strings.Repeat("\xff", 2000), "x", uint16(40), uint16(100))
	f.Add("", "", uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, a, b string, n, size uint16) {
		rw := &rowWrites{table: "t", row: "r"}
		wants := &rowWants{row: "r"}
		value := make([]byte, size)
		for i := range int(n % 512) {
			column := fmt.Sprint([]string{a, b}[i%2], i)
			if len(column) > MaxColumnBytes {
				return
			}
			rw.writes = append(rw.writes, &write{cell: Cell{"t", "r", column}, kind: kindPut, value: value})
			wants.columns, wants.index = append(wants.columns, column), append(wants.index, i)
		}
		for _, span := range []bool{false, true} {
			var all []*write
			for _, chunk := range rw.chunks(span) {
				all = append(all, chunk...)
				if p := pattern(columnsOf(chunk)); !span && len(p) > maxFilterBytes {
					t.Errorf("a pattern of %d bytes", len(p))
				}
				if len(chunk) == 0 || 2*len(chunk) > maxMutationsPerRow {
					t.Errorf("a chunk of %d cells", len(chunk))
				}
			}
			if !slices.Equal(all, rw.writes) {
				t.Errorf("the chunks hold %d of %d cells", len(all), len(rw.writes))
			}
		}
		var columns []string
		var index []int
		for _, part := range wants.split() {
			columns, index = append(columns, part.columns...), append(index, part.index...)
			if p := pattern(part.columns); len(p) > maxFilterBytes {
				t.Errorf("a pattern of %d bytes", len(p))
			}
		}
		if !slices.Equal(columns, wants.columns) || !slices.Equal(index, wants.index) {
			t.Errorf("the parts hold %d of %d columns", len(columns), len(wants.columns))
		}
	})
}
