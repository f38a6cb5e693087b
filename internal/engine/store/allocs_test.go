package store

import (
	"fmt"
	"runtime"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/tso"
)

// What queries, rows and mutations allocate on their way to and from Google's types does not depend
// on the machine: each has a bound, which is what it allocates today. Lower it with what saves
// something; nothing should raise it unnoticed. What Google's client, gRPC and Protocol Buffers
// allocate is not ours to bound. TestAllocations of commit, layout, locks and reads bounds the
// rest.
//
// The test does not run beside others, since what is counted is what the process allocates.
func TestAllocations(t *testing.T) {
	const start, end = tso.Timestamp(1_000_000), tso.Timestamp(1_000_100)
	one, four, many := []string{"title"}, []string{"a", "b", "c", "d"}, make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprint("column-", i)
	}
	lock := &layout.LockRecord{StartTS: start, Kind: layout.KindPut, Placed: start, TTL: 10_000_000_000, Session: "session"}
	lock.Primary.Table, lock.Primary.Row, lock.Primary.Column = "t", "row", "title"
	lockBytes, record := lock.Encode(), layout.EncodeWrite(start, layout.KindPut)
	committed := googleRow(one, end, start, record, nil)
	locked := googleRow(one, end, start, record, lockBytes)
	wide := googleRow(many, end, start, record, nil)
	prewrites := func(columns []string) *Mutation {
		m := NewMutation(2 * len(columns))
		for _, c := range columns {
			m.Put(layout.DataFamily, c, start, record)
			m.Put(layout.LockFamily, c, start, lockBytes)
		}
		return m
	}
	commits := func(columns []string) *Mutation {
		m := NewMutation(2 * len(columns))
		for _, c := range columns {
			m.Commit(c, layout.KindPut, start, end, false, layout.Lifetime{})
		}
		return m
	}
	prewrite1, prewrite20, commit1, commit20 := prewrites(one), prewrites(many), commits(one), commits(many)

	// What comes out is kept, as a caller would.
	var (
		filter bigtable.Filter
		mut    *bigtable.Mutation
		rows   layout.RowVersions
	)
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"filter of a snapshot, 1 column", 11, func() { filter = Newest(one, start, 1).filter() }},
		{"filter of a snapshot, 4 columns", 29, func() { filter = Newest(four, start, 1).filter() }},
		{"filter of a snapshot, 20 columns", 10, func() { filter = Newest(many, start, 1).filter() }},
		{"filter of a batch", 10, func() { filter = Newest(one, 0, 2).filter() }},
		{"filter of a conflict, 1 column", 10, func() { filter = Conflict(one, start, true).filter() }},
		{"filter of a conflict, 4 columns", 12, func() { filter = Conflict(four, start, true).filter() }},
		{"filter of a lock", 5, func() { filter = HeldLock("title", start).filter() }},
		{"filter of a primary", 15, func() { filter = Primary("title", start).filter() }},
		{"a row of 1 column", 4, func() { rows = layout.DecodeRow("t", rowOf(committed)) }},
		{"a row of 1 column, locked", 8, func() { rows = layout.DecodeRow("t", rowOf(locked)) }},
		{"a row of 20 columns", 28, func() { rows = layout.DecodeRow("t", rowOf(wide)) }},
		{"prewrite of 1 column", 11, func() { mut = prewrite1.google() }},
		{"prewrite of 20 columns", 168, func() { mut = prewrite20.google() }},
		{"commit of 1 column", 12, func() { mut = commit1.google() }},
		{"commit of 20 columns", 188, func() { mut = commit20.google() }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, got, c.most)
		}
	}
	runtime.KeepAlive([]any{&filter, &mut, &rows})
}

// googleRow is a row of the columns as Bigtable answers: a record and its data in each, and a lock
// if there is one.
func googleRow(columns []string, end, start tso.Timestamp, record, lock []byte) bigtable.Row {
	row := bigtable.Row{}
	add := func(family, column string, ts tso.Timestamp, value []byte) {
		row[family] = append(row[family], bigtable.ReadItem{Row: "row", Column: family + ":" + column, Timestamp: cellTime(ts), Value: value})
	}
	for _, col := range columns {
		add(layout.DataFamily, col, start, []byte("value"))
		add(layout.WriteFamily, col, end, record)
		if lock != nil {
			add(layout.LockFamily, col, start, lock)
		}
	}
	return row
}
