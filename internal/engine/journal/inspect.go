package journal

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// People look at the journal when something is wrong with it: what cannot be decoded is a part of
// what they see, and hides nothing else.

// Inspected is a stream as it is stored.
type Inspected struct {
	Stream
	Opened    time.Time     // by its client's clock
	Rows      int           // batches of entries, at most InspectedRows
	Unsettled int           // of these, from the low position on
	More      bool          // there are more rows
	Oldest    tso.Timestamp // least start timestamp in the first unsettled row; 0: none
	Corrupt   error         // the header, or the first unsettled row, cannot be decoded
}

// InspectedRows is how many rows of a stream are counted.
const InspectedRows = 10_000

// String is the id of a stream for people.
func (id StreamID) String() string { return hex.EncodeToString([]byte(id)) }

// ParseStreamID is the inverse of String.
func ParseStreamID(s string) (StreamID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != streamBytes || b[0] >= shards {
		return "", fmt.Errorf("percolator: %w: %q is not the id of a stream, which has %d hexadecimal digits", model.ErrInvalidArgument, s, 2*streamBytes)
	}
	return StreamID(b), nil
}

// Inspect streams all streams with what is in them, without the entries.
func Inspect(ctx context.Context, s *store.Store) iter.Seq2[Inspected, error] {
	return func(yield func(Inspected, error) bool) {
		has := map[StreamID]bool{}
		for first, err := range both(headers(ctx, s, 0, shards), firstRows(ctx, s, model.Between("", string([]byte{parkedShard})))) {
			var in Inspected
			if id, _, ok := parseKey(first.Key); err == nil && ok && has[id] {
				continue
			} else if ok {
				has[id] = true
			}
			if err == nil {
				in = inspectHeader(first)
				if in.ID != "" {
					err = in.count(ctx, s)
				}
			}
			if !yield(in, err) || err != nil {
				return
			}
		}
	}
}

// both is one sequence after the other.
func both[K, V any](a, b iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, seq := range []iter.Seq2[K, V]{a, b} {
			for k, v := range seq {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// inspectHeader is what the first row of a stream tells.
func inspectHeader(row layout.Row) (in Inspected) {
	in.Stream, in.Corrupt = streamOf(row)
	if _, seq, ok := parseKey(row.Key); !ok || seq > 0 {
		return in
	}
	for _, it := range row.Of(layout.JournalFamily) {
		if h, err := decodeHeader(it.Value); it.Column == sessionColumn && err == nil {
			in.Opened = h.Opened
		}
	}
	return in
}

// count counts rows, and looks at the first one that is not settled.
func (in *Inspected) count(ctx context.Context, s *store.Store) error {
	rows := model.Between(in.ID.key(1), in.ID.end())
	page, err := s.ReadPage(ctx, model.JournalTable, rows, store.Anything(), store.PageSize{Rows: InspectedRows})
	if err != nil {
		return err
	}
	in.Rows, in.More = len(page.Rows), page.More
	for _, row := range page.Rows {
		if _, seq, _ := parseKey(row.Key); seq >= in.Low {
			in.Unsettled++
		}
	}
	for row, err := range InspectRows(ctx, s, in.ID, in.Low) {
		if err != nil {
			return err
		}
		in.Corrupt, in.Oldest = cmp.Or(in.Corrupt, row.Corrupt), row.oldest()
		break
	}
	return nil
}

// oldest is the least start timestamp of a row.
func (r InspectedRow) oldest() (ts tso.Timestamp) {
	for _, e := range r.Entries {
		if ts == 0 || e.StartTS < ts {
			ts = e.StartTS
		}
	}
	return ts
}

// InspectedRow is a row of a stream as it is stored.
type InspectedRow struct {
	StreamRow
	Bytes   int
	Corrupt error // Entries cannot be decoded
}

// InspectRows streams the rows of a stream from a number on.
func InspectRows(ctx context.Context, s *store.Store, id StreamID, from uint64) iter.Seq2[InspectedRow, error] {
	return func(yield func(InspectedRow, error) bool) {
		for page, err := range streamPages(ctx, s, id, from, store.PageSize{First: 1, Rows: namedRows}) {
			if err != nil {
				yield(InspectedRow{}, err)
				return
			}
			for _, row := range page.Rows {
				in := InspectedRow{Bytes: row.Size()}
				in.StreamRow, in.Corrupt = decodeRow(row)
				if !yield(in, nil) {
					return
				}
			}
		}
	}
}
