package admin

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Bigtable tells the size of a value only by sending it. So values are read in small requests, ever
// larger ones as long as they turn out to be small, until the limit on bytes is reached; a version
// never changes, so it does not matter that it is read after the row was.
const (
	valuesFirst  = 2       // values of the first request: 100 MB each, of 256 MB for a row
	valuesAnswer = 4 << 20 // bytes that an answer is meant to have
	valuesFilter = model.MaxFilterBytes / 2
)

// wantedValues are versions of which the size is asked for, in order, and where it is needed.
type wantedValues struct {
	order []wantedValue
	found map[wantedValue][]func(value []byte)
}

type wantedValue struct {
	column  string
	startTS tso.Timestamp
}

func (w *wantedValues) add(column string, startTS tso.Timestamp, found func([]byte)) {
	if w.found == nil {
		w.found = map[wantedValue][]func([]byte){}
	}
	v := wantedValue{column, startTS}
	if w.found[v] == nil {
		w.order = append(w.order, v)
	}
	w.found[v] = append(w.found[v], found)
}

// readValues calls what was added for each version that is still there. left is how many were not
// read, as the bytes had been used up.
func readValues(ctx context.Context, e *engine.Engine, table, row string, want wantedValues, bytes int64) (left int, err error) {
	rest := want.order
	for n := valuesFirst; len(rest) > 0 && bytes > 0; {
		part := someOf(rest, n)
		used, err := readSomeValues(ctx, e, table, row, part, want.found)
		switch {
		case reads.TooLarge(err) && len(part) > 1:
			n = len(part) / 2
			continue
		case err != nil:
			return len(rest), err
		}
		rest, bytes = rest[len(part):], bytes-used
		each := max(1, int(used)/len(part))
		n = max(1, min(2*n, valuesAnswer/each))
	}
	return len(rest), nil
}

// someOf takes at most n, and what one filter holds.
func someOf(want []wantedValue, n int) []wantedValue {
	size := 0
	for i, w := range want {
		if size += len(w.column) + 64; i > 0 && (i == n || size > valuesFilter) {
			return want[:i]
		}
	}
	return want
}

func readSomeValues(
	ctx context.Context, e *engine.Engine, table, row string, want []wantedValue, found map[wantedValue][]func([]byte),
) (used int64, err error) {
	versions := ordered.Map(want, func(w wantedValue) store.Version { return store.Version{Column: w.column, StartTS: w.startTS} })
	r, err := e.Store.ReadRow(ctx, table, row, store.Data(versions...))
	if err != nil {
		return 0, err
	}
	for _, item := range r.Of(layout.DataFamily) {
		used += int64(len(item.Value))
		ts, err := layout.FromCell(item.Timestamp)
		if err != nil {
			continue
		}
		for _, f := range found[wantedValue{item.Column, ts}] {
			f(item.Value)
		}
	}
	return used, nil
}

// unreadValues says in words that sizes are missing.
func unreadValues(n int, bytes int64) string {
	return fmt.Sprintf("the sizes of %d values: %d bytes were read for the others", n, bytes)
}
