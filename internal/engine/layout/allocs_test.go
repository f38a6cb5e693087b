package layout

import (
	"runtime"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestAllocations bounds what cells and views allocate; that of store says how.
func TestAllocations(t *testing.T) {
	const start, end = tso.Timestamp(1_000_000), tso.Timestamp(1_000_100)
	lock := &LockRecord{StartTS: start, Kind: KindPut, Primary: model.Cell{Table: "t", Row: "row", Column: "title"}, Placed: start, TTL: 10 * time.Second, Session: "session"}
	lockBytes, record := lock.Encode(), EncodeWrite(start, KindPut)
	seen := DecodeRow("t", Row{Key: "row", Items: []Item{
		{WriteFamily, "title", CellTime(end), record},
		{DataFamily, "title", CellTime(start), []byte("value")},
	}})["title"]
	var (
		bytes   []byte
		held    LockRecord
		written WriteRecord
		result  view
		err     error
	)
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"a lock's bytes", 1, func() { bytes = lock.Encode() }},
		{"a lock from its bytes", 3, func() { held, err = DecodeLock(CellTime(start), lockBytes) }},
		{"a record's bytes", 1, func() { bytes = EncodeWrite(start, KindPut) }},
		{"a record from its bytes", 0, func() { written, err = DecodeWrite(CellTime(end), record) }},
		{"what a snapshot sees", 0, func() { result = seen.At(end, 1) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, got, c.most)
		}
	}
	if err != nil || result.State != ViewValue {
		t.Error(err, result)
	}
	runtime.KeepAlive([]any{&bytes, &held, &written})
}
