package percolator

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// What the pure parts of a read and a commit allocate does not depend on the machine: each has a bound, which is what it allocates
// today. Lower it with what saves something; nothing should raise it unnoticed. What Google's client, gRPC and Protocol Buffers
// allocate is not ours to bound.
//
// The test does not run beside others, since what is counted is what the process allocates.
func TestAllocations(t *testing.T) {
	const start, end = tso.Timestamp(1_000_000), tso.Timestamp(1_000_100)
	one, four, many := []string{"title"}, []string{"a", "b", "c", "d"}, make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprint("column-", i)
	}
	lock := &lockRecord{startTS: start, kind: kindPut, primary: Cell{"t", "row", "title"}, placed: start, ttl: 10 * time.Second, session: "session"}
	lockBytes, record := lock.encode(), encodeWrite(start, kindPut)
	committed := storedRow(one, end, start, record, nil)
	locked := storedRow(one, end, start, record, lockBytes)
	wide := storedRow(many, end, start, record, nil)
	seen := decodeRow("t", committed)["title"]
	var cells []Cell
	for i := range 10 {
		cells = append(cells, Cell{"t", fmt.Sprint("row", i), "title"})
	}
	client := &Client{cfg: Config{LockTTL: 10 * time.Second}, alive: &liveness{}}
	var writes, wideWrites []*write
	for _, col := range many {
		wideWrites = append(wideWrites, &write{cell: Cell{"t", "row", col}, kind: kindPut, value: record})
	}
	writes = wideWrites[:1]
	cm := &commit{c: client, startTS: start, begun: time.Now(), primary: writes[0]}
	narrow, broad := &rowWrites{table: "t", row: "row", writes: writes}, &rowWrites{table: "t", row: "row", writes: wideWrites}

	// What comes out is kept, as a caller would.
	var (
		filter  bigtable.Filter
		bytes   []byte
		mut     *bigtable.Mutation
		held    lockRecord
		written writeRecord
		rows    rowVersions
		result  view
		fate    decision
		groups  []*readGroup
		err     error
	)
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"filter of a snapshot, 1 column", 11, func() { filter = snapshotFilter(one, start, 1) }},
		{"filter of a snapshot, 4 columns", 29, func() { filter = snapshotFilter(four, start, 1) }},
		{"filter of a snapshot, 20 columns", 10, func() { filter = snapshotFilter(many, start, 1) }},
		{"filter of a batch", 10, func() { filter = snapshotFilter(one, 0, batchWindow) }},
		{"filter of a conflict, 1 column", 17, func() { filter = conflictFilter(one, start, true) }},
		{"filter of a conflict, 4 columns", 18, func() { filter = conflictFilter(four, start, true) }},
		{"filter of a lock", 5, func() { filter = lockFilter("title", start) }},
		{"filter of a primary", 15, func() { filter = primaryFilter("title", start) }},
		{"a lock's bytes", 1, func() { bytes = lock.encode() }},
		{"a lock from its bytes", 3, func() { held, err = decodeLock(cellTime(start), lockBytes) }},
		{"a record's bytes", 1, func() { bytes = encodeWrite(start, kindPut) }},
		{"a record from its bytes", 0, func() { written, err = decodeWrite(cellTime(end), record) }},
		{"a row of 1 column", 5, func() { rows = decodeRow("t", committed) }},
		{"a row of 1 column, locked", 9, func() { rows = decodeRow("t", locked) }},
		{"a row of 20 columns", 67, func() { rows = decodeRow("t", wide) }},
		{"what a snapshot sees", 0, func() { result = seen.at(end, 1) }},
		{"the fate of a transaction", 0, func() { fate, err = decide(lock.primary, start, seen) }},
		{"prewrite of 1 column", 13, func() { mut = cm.prewriteMutation(writes) }},
		{"prewrite of 20 columns", 208, func() { mut = cm.prewriteMutation(wideWrites) }},
		{"commit of 1 column", 13, func() { mut = cm.commitMutation(narrow, end) }},
		{"commit of 20 columns", 208, func() { mut = cm.commitMutation(broad, end) }},
		{"group 1 read", 7, func() { groups = client.groupReads(cells[:1]) }},
		{"group reads of 10 rows", 135, func() { groups = client.groupReads(cells) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, got, c.most)
		}
	}
	if err != nil {
		t.Error(err)
	}
	runtime.KeepAlive([]any{&filter, &bytes, &mut, &held, &written, &rows, &result, &fate, &groups})
}

// storedRow is a row of the columns as Bigtable answers: a record and its data in each, and a lock if there is one.
func storedRow(columns []string, end, start tso.Timestamp, record, lock []byte) bigtable.Row {
	row := bigtable.Row{}
	add := func(family, column string, ts tso.Timestamp, value []byte) {
		row[family] = append(row[family], bigtable.ReadItem{Row: "row", Column: family + ":" + column, Timestamp: cellTime(ts), Value: value})
	}
	for _, col := range columns {
		add(dataFamily, col, start, []byte("value"))
		add(writeFamily, col, end, record)
		if lock != nil {
			add(lockFamily, col, start, lock)
		}
	}
	return row
}
