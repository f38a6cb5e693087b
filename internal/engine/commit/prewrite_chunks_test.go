package commit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// However a row is cut, every cell is in exactly one request, and none is larger than Bigtable
// takes.
func TestChunksOfLargeRows(t *testing.T) {
	t.Parallel()
	big := make([]byte, 3<<20)
	for name, rw := range map[string]*rowWrites{
		"as many columns as may be": rowOf(model.MaxColumnsPerRow, 8, nil),
		"long names":                rowOf(200, model.MaxColumnBytes, nil),
		"large values":              rowOf(40, 8, big),
		"one value":                 rowOf(1, 8, big),
	} {
		for _, span := range []bool{false, true} {
			var cells []*Write
			for _, chunk := range rw.chunks(span) {
				size := 0
				for _, w := range chunk {
					size += len(w.Value)
				}
				if len(chunk) == 0 || 2*len(chunk) > model.MaxMutationsPerRow || size > chunkBytes && len(chunk) > 1 {
					t.Errorf("%s: a chunk of %d cells and %d bytes", name, len(chunk), size)
				}
				cells = append(cells, chunk...)
			}
			if !slices.Equal(cells, rw.writes) {
				t.Errorf("%s: %d of %d cells in the chunks", name, len(cells), len(rw.writes))
			}
		}
	}
}

func rowOf(columns, nameBytes int, value []byte) *rowWrites {
	rw := &rowWrites{table: "t", row: "r"}
	for i := range columns {
		name := make([]byte, nameBytes)
		for j := range name {
			name[j] = byte('a' + (i>>(4*min(j, 7)))&15)
		}
		rw.writes = append(rw.writes, &Write{Cell: model.Cell{Table: "t", Row: "r", Column: string(name)}, Kind: layout.KindPut, Value: value, observed: true})
	}
	return rw
}

// The commit of the widest row is one request, roll backs and erasures of it too, and none has more
// mutations than Bigtable takes for a row.
func TestMutationsOfTheWidestRow(t *testing.T) {
	t.Parallel()
	rw := rowOf(model.MaxColumnsPerRow, 8, nil) // all of them observed: record, lock and notification each
	cm := &commit{startTS: 5}
	acknowledging := rowOf(model.MaxColumnsPerRow, 8, nil)
	for _, w := range acknowledging.writes {
		w.observed = false // acknowledgments are not observed, and each may erase a notification
		acknowledging.erase = append(acknowledging.erase, w.Cell.Column)
	}
	for name, mut := range map[string]*store.Mutation{
		"a commit":                    cm.commitMutation(rw, 7),
		"a commit of acknowledgments": cm.commitMutation(acknowledging, 7),
	} {
		if n := len(layertest.Request(t, store.Anything(), mut).TrueMutations); n < 2*model.MaxColumnsPerRow || n > model.MaxMutationsPerRow {
			t.Errorf("%s of %d columns has %d mutations, the limit is %d", name, model.MaxColumnsPerRow, n, model.MaxMutationsPerRow)
		}
	}
}

// The commit of a row is one request, so the names of its columns are bounded as well.
func TestNamesOfTheWidestRow(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int{"short": 100, "long": 2000} {
		rw, cm := rowOf(0, 0, nil), &commit{startTS: 5}
		var err error
		for _, w := range rowOf(model.MaxColumnsPerRow, bytes, nil).writes {
			if err = rw.add(w); err != nil {
				rw.writes = rw.writes[:len(rw.writes)-1]
				break
			}
		}
		if long := bytes > 1000; errors.Is(err, model.ErrTooLarge) != long {
			t.Errorf("%s names: %v", name, err)
		}
		if n := proto.Size(layertest.Request(t, store.Anything(), cm.commitMutation(rw, 7))); n > commitBytes {
			t.Errorf("%s names: the commit has %d bytes", name, n)
		}
	}
}

// A predicate as large as a prewrite makes it stays below Bigtable's 20 KB, whatever the columns.
func TestPredicatesStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	long := func(i int) string {
		return fmt.Sprintf("%02d", i) + string(bytes.Repeat([]byte{0xff}, model.MaxColumnBytes-2))
	}
	rw := &rowWrites{}
	for i := range 20 {
		rw.writes = append(rw.writes, &Write{Cell: model.Cell{Table: "t", Row: "r", Column: long(i)}, Kind: layout.KindPut})
	}
	for i := range 3000 {
		rw.writes = append(rw.writes, &Write{Cell: model.Cell{Table: "t", Row: "r", Column: fmt.Sprint("c", i)}, Kind: layout.KindPut})
	}
	n := 0
	for _, chunk := range rw.chunks(false) {
		n += len(chunk)
		if size := layertest.PredicateBytes(t, store.Conflict(columnsOf(chunk), 1<<40, false)); size > 20<<10 {
			t.Errorf("the predicate of %d columns has %d bytes", len(chunk), size)
		}
	}
	if n != len(rw.writes) {
		t.Errorf("the chunks hold %d of %d writes", n, len(rw.writes))
	}
}

// FuzzChunks: however a row's columns are called, requests name each of them exactly once, in
// order, and their patterns fit.
func FuzzChunks(f *testing.F) {
	f.Add("a", "b", uint16(3), uint16(0))
	f.Add(strings.Repeat("\xff", 2000), "x", uint16(40), uint16(100))
	f.Add("", "", uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, a, b string, n, size uint16) {
		rw := &rowWrites{table: "t", row: "r"}
		value := make([]byte, size)
		for i := range int(n % 512) {
			column := fmt.Sprint([]string{a, b}[i%2], i)
			if len(column) > model.MaxColumnBytes {
				return
			}
			rw.writes = append(rw.writes, &Write{Cell: model.Cell{Table: "t", Row: "r", Column: column}, Kind: layout.KindPut, Value: value})
		}
		for _, span := range []bool{false, true} {
			var all []*Write
			for _, chunk := range rw.chunks(span) {
				all = append(all, chunk...)
				pattern := 0
				for _, column := range columnsOf(chunk) {
					pattern += store.PatternBytes(column)
				}
				if !span && pattern > model.MaxFilterBytes {
					t.Errorf("a pattern of up to %d bytes", pattern)
				}
				if len(chunk) == 0 || 2*len(chunk) > model.MaxMutationsPerRow {
					t.Errorf("a chunk of %d cells", len(chunk))
				}
			}
			if !slices.Equal(all, rw.writes) {
				t.Errorf("the chunks hold %d of %d cells", len(all), len(rw.writes))
			}
		}
	})
}
