package journal

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// entries generates entries as commits append them.
func entries() *rapid.Generator[[]*model.JournalEntry] {
	table := rapid.SampledFrom([]string{"accounts", "accounts.by_owner", "t"})
	name := rapid.SliceOfN(rapid.Byte(), 1, 40)
	row := rapid.Custom(func(t *rapid.T) model.JournalName {
		return model.JournalName{Table: table.Draw(t, "table"), Key: string(name.Draw(t, "key")), Observed: rapid.Bool().Draw(t, "observed"), Weak: rapid.Bool().Draw(t, "weak")}
	})
	entry := rapid.Custom(func(t *rapid.T) *model.JournalEntry {
		e := &model.JournalEntry{StartTS: tso.Timestamp(rapid.Int64Range(1, int64(tso.MaxTimestamp)).Draw(t, "start")), Rows: rapid.SliceOfN(row, 1, 5).Draw(t, "rows")}
		if rapid.Bool().Draw(t, "primary") {
			e.Primary = model.Cell{Table: table.Draw(t, "table"), Row: string(name.Draw(t, "row")), Column: string(name.Draw(t, "column"))}
		}
		return e
	})
	return rapid.SliceOfN(entry, 1, 8)
}

// What is appended is what is read, and takes no more room than was counted.
func TestBatchIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := entries().Draw(t, "entries")
		size := headBytes
		for _, e := range want {
			size += entryBytes(e)
		}
		value := encodeBatch(want)
		if len(value) > size {
			t.Fatalf("a batch of %d bytes was counted as %d", len(value), size)
		}
		got, err := DecodeBatch(value)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], *want[i]) {
				t.Fatalf("entry %d is %+v, was %+v", i, got[i], *want[i])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d entries of %d", len(got), len(want))
		}
		for cut := range value[:len(value)-1] { // an entry that is cut short is none
			if got, err := DecodeBatch(value[:cut]); err == nil && len(got) >= len(want) {
				t.Fatalf("%d of %d bytes are as good as all", cut, len(value))
			}
		}
	})
}

// A transaction with many rows is cut into parts that are dealt with one by one, and has a limit.
func TestLargeEntryIsCut(t *testing.T) {
	t.Parallel()
	e := &model.JournalEntry{StartTS: 5, Primary: model.Cell{Table: "t", Row: "first", Column: "c"}}
	for len(e.Rows) < 3000 {
		e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: strings.Repeat("k", 1000)})
	}
	parts, err := entryParts(e)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, p := range parts {
		rows += len(p.Rows)
		if len(p.Rows) == 0 || p.Primary != e.Primary || p.StartTS != e.StartTS || entryBytes(p) > partBytes {
			t.Errorf("a part of %d rows and %d bytes of %d at %v", len(p.Rows), entryBytes(p), p.StartTS, p.Primary)
		}
	}
	if rows != len(e.Rows) || len(parts) < 2 {
		t.Errorf("%d rows of %d in %d parts", rows, len(e.Rows), len(parts))
	}
	for most := MaxEntryParts * partBytes / rowBytes(e.Rows[0]); len(e.Rows) <= most; {
		e.Rows = append(e.Rows, e.Rows[0])
	}
	if _, err := entryParts(e); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("an entry of %d rows: %v", len(e.Rows), err)
	}
}

// FuzzBatch: bytes that nobody wrote are an error, never a panic; what is accepted can be written.
func FuzzBatch(f *testing.F) {
	f.Add(encodeBatch([]*model.JournalEntry{{StartTS: 7, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Rows: []model.JournalName{{Table: "t", Key: "r", Observed: true}, {Table: "u", Key: "s", Weak: true}}}}))
	f.Add([]byte{batchVersion, 1, 1, 't', 5, 0, 1, 0, 1, 'r'})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		got, err := DecodeBatch(value)
		if err != nil {
			return
		}
		var list []*model.JournalEntry
		for i := range got {
			list = append(list, &got[i])
		}
		again, err := DecodeBatch(encodeBatch(list))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v was written as %+v: %v", got, again, err)
		}
	})
}

// FuzzHeader: a header that nobody wrote is an error or a session, never a panic.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{"Session":"abc","Opened":"2026-11-22T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		h, err := decodeHeader(value)
		if err != nil && h != (header{}) {
			t.Error(h)
		}
	})
}

// A stream's rows are told from each other, from headers and from parked cells.
func TestKeysOfStreams(t *testing.T) {
	t.Parallel()
	var others []StreamID
	for range 20 {
		id := newStreamID(others...)
		others = append(others, id)
		for _, seq := range []uint64{0, 1, 255, 256, 1 << 40} {
			if got, n, ok := parseKey(id.key(seq)); !ok || got != id || n != seq {
				t.Errorf("%x %d is %x %d %v", id, seq, got, n, ok)
			}
		}
		if id.key(0) < parkedKey(model.Cell{}) || id.key(255) >= id.key(256) || len(id.key(1)) != streamKeyLen {
			t.Errorf("the rows of %x are out of order", id)
		}
	}
	a, b := parkedKey(model.Cell{Table: "t", Row: "r", Column: "c"}), parkedKey(model.Cell{Table: "t", Row: "rc", Column: ""})
	if _, _, ok := parseKey(a); ok || a == b || a < strings.Repeat("\x3f\xff", 20) {
		t.Errorf("parked cells are at %x and %x", a, b)
	}
}
