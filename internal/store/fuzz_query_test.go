package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// storedCell is one version, as the queries see it.
type storedCell struct {
	family, column string
	ts             tso.Timestamp
}

// FuzzQueries asks the emulator what queries find of a row with the columns a, b and other at
// timestamps around start, and compares that with what they are for.
func FuzzQueries(f *testing.F) {
	s := newBareStore(f)
	for i, c := range awkwardColumns {
		f.Add(c, awkwardColumns[(i+1)%len(awkwardColumns)], awkwardColumns[(i+7)%len(awkwardColumns)], uint16(i))
	}
	f.Add("a", "a", "aa", uint16(0))
	f.Add(strings.Repeat("\xff", model.MaxColumnBytes), strings.Repeat(".", model.MaxColumnBytes), strings.Repeat("*", model.MaxColumnBytes), uint16(9))
	rows := 0
	f.Fuzz(func(t *testing.T, a, b, other string, at uint16) {
		for _, column := range []string{a, b, other} {
			if model.ValidateColumn(model.Cell{Table: "t", Row: "r", Column: column}) != nil {
				return
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rows++
		row, start := fmt.Sprint("row", rows), tso.Timestamp(at)+2
		var cells []storedCell
		mut := bigtable.NewMutation()
		for _, column := range slices.Compact(slices.Sorted(slices.Values([]string{a, b, other}))) {
			for _, family := range []string{layout.DataFamily, layout.LockFamily, layout.WriteFamily, layout.NotifyFamily} {
				for _, ts := range []tso.Timestamp{start - 1, start, start + 1} {
					cells = append(cells, storedCell{family, column, ts})
					mut.Set(family, column, cellTime(ts), layout.EncodeWrite(ts, layout.KindRollback))
				}
			}
		}
		if err := s.google.table("t").Apply(ctx, row, mut); err != nil {
			t.Fatal(err)
		}
		defer func() {
			gone := bigtable.NewMutation()
			gone.DeleteRow()
			if err := s.google.table("t").Apply(ctx, row, gone); err != nil {
				t.Error(err)
			}
		}()
		check := func(what string, q Query, want func(c storedCell) bool) {
			t.Helper()
			r, err := s.ReadRow(ctx, "t", row, q)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			got := map[storedCell]int{}
			for _, it := range r.Items {
				got[storedCell{it.Family, it.Column, tso.Timestamp(it.Timestamp / 1000)}]++
			}
			for _, c := range cells {
				if (got[c] == 1) != want(c) || got[c] > 1 {
					t.Errorf("%s of %q and %q beside %q at %d: %+v comes %d times, want %v", what, a, b, other, start, c, got[c], want(c))
				}
			}
		}
		is := func(columns ...string) func(c storedCell) bool {
			return func(c storedCell) bool { return slices.Contains(columns, c.column) }
		}
		conflict := func(among func(c storedCell) bool, first bool) func(c storedCell) bool {
			return func(c storedCell) bool {
				return among(c) && (c.family == layout.LockFamily && (first || c.ts != start) || c.family == layout.WriteFamily && c.ts >= start)
			}
		}
		few := slices.Compact([]string{a, b}) // who reads more than the newest version names each column once
		many := append(slices.Clip(few), "never 1", "never 2", "never 3", "never 4")
		for what, columns := range map[string][]string{"one column": {a}, "two columns": few, "many columns": many} {
			read := is(columns...)
			check("a read of "+what, Newest(columns, start, 1), func(c storedCell) bool {
				return read(c) && c.ts == start && (c.family != layout.NotifyFamily || rangesOf(columns) == nil)
			})
			check("a read without bound of "+what, Newest(columns, 0, 2), func(c storedCell) bool {
				return read(c) && c.ts >= start && (c.family != layout.NotifyFamily || rangesOf(columns) == nil)
			})
			check("the conflict of "+what, Conflict(columns, start, false), conflict(read, false))
			check("the conflict, at first, of "+what, Conflict(columns, start, true), conflict(read, true))
		}
		first, last := min(a, b), max(a, b)
		between := func(c storedCell) bool { return c.column >= first && c.column <= last }
		check("the span", ConflictSpan(first, last, start, false), conflict(between, false))
		check("the span, at first", ConflictSpan(first, last, start, true), conflict(between, true))
		check("the lock", HeldLock(a, start), func(c storedCell) bool { return c == storedCell{layout.LockFamily, a, start} })
		check("the record", Record(a, start), func(c storedCell) bool { return c == storedCell{layout.WriteFamily, a, start} })
		check("the primary", Primary(a, start), func(c storedCell) bool {
			return c.column == a && c.ts == start && (c.family == layout.LockFamily || c.family == layout.WriteFamily)
		})
	})
}
