package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// FuzzQueries asks the emulator what queries find of a row with the columns a, b and other at
// timestamps around start, and compares that with what Evaluate finds.
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
			if catalog.ValidateColumn(model.Cell{Table: "t", Row: "r", Column: column}) != nil {
				return
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rows++
		row, start := fmt.Sprint("row", rows), tso.Timestamp(at)+2
		var items []layout.Item
		mut := bigtable.NewMutation()
		for _, family := range layout.Families {
			for _, column := range slices.Compact(slices.Sorted(slices.Values([]string{a, b, other}))) {
				for _, ts := range []tso.Timestamp{start + 1, start, start - 1} {
					value := layout.EncodeWrite(ts, layout.KindRollback)
					items = append(items, layout.Item{Family: family, Column: column, Timestamp: layout.CellTime(ts), Value: value})
					mut.Set(family, column, cellTime(ts), value)
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
		check := func(what string, q Query) {
			t.Helper()
			r, err := s.ReadRow(ctx, "t", row, q)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			want, _ := q.Evaluate(items)
			got, evaluated := listed(r, true), listed(layout.Row{Items: want}, true)
			slices.Sort(got)
			if slices.Sort(evaluated); !slices.Equal(got, evaluated) {
				t.Errorf("%s of %q and %q beside %q at %d: %q, want %q", what, a, b, other, start, got, evaluated)
			}
		}
		few := slices.Compact([]string{a, b}) // who reads more than the newest version names each column once
		many := append(slices.Clip(few), "never 1", "never 2", "never 3", "never 4")
		for what, columns := range map[string][]string{"one column": {a}, "two columns": few, "many columns": many} {
			check("a read of "+what, Newest(columns, start, 1))
			check("a read without bound of "+what, Newest(columns, 0, 2))
			check("the conflict of "+what, Conflict(columns, start, false))
			check("the conflict, at first, of "+what, Conflict(columns, start, true))
			check("the changes of "+what, Changes(columns, start))
			check("a read of the changes of "+what, Newest(columns, start, 1).OnlyChanges())
			check("the records and locks of "+what, RecordsAndLocks(columns, 2))
			if len(a)+len(b) <= model.MaxColumnBytes { // as callers bound it
				check("the inspection of "+what, Inspected(columns, 2, 5))
			}
		}
		first, last := min(a, b), max(a, b)
		for what, ranges := range map[string]catalog.Ranges{
			"a range":     catalog.Union(model.Between(first, last), model.Row(other)),
			"a prefix":    catalog.Union(model.Prefix(a)),
			"two columns": catalog.Union(model.Row(a), model.Row(b)),
			"all others":  catalog.Union(model.Between("", first), model.Between(last+"\x00", "")),
		} {
			size := 0
			for _, r := range ranges {
				size += RangeBytes(r)
			}
			if size > 0 && size <= model.MaxFilterBytes { // as callers bound it
				check("a read of "+what, NewestIn(ranges, start, 1))
				check("a read without bound of "+what, NewestIn(ranges, 0, 2))
			}
		}
		check("the span", ConflictSpan(first, last, start, false))
		check("the span, at first", ConflictSpan(first, last, start, true))
		check("the lock", HeldLock(a, start))
		check("the record", Record(a, start))
		check("the primary", Primary(a, start))
		check("the data", Data(Version{a, start}))
		check("the notifications", AnyNotify(a))
		check("the records", Records(a, start, 2))
	})
}
