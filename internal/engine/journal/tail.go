package journal

import (
	"context"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// tailRows is how many rows one request of a tail brings at most.
const tailRows = 256

// Tail follows all streams, with or without header: each call of Read reads what was appended
// since. It asks for everything but what it has read, so a stream that it does not know, because it
// is new or has lost its header, costs no request of its own, and one request serves hundreds of
// streams.
//
// What was appended before a call begins is read by it: a row of a stream with a lower number than
// one that is there is there too, can no longer arrive, or was collected (J1). It is not safe for
// concurrent use.
type Tail struct {
	next  map[StreamID]uint64 // the number from which a stream is to be read
	ended map[StreamID]bool   // for the call in flight
}

// NewTail begins to read streams at the given numbers, and others at their first row.
func NewTail(from map[StreamID]uint64) *Tail {
	t := &Tail{next: map[StreamID]uint64{}}
	maps.Copy(t.next, from)
	return t
}

// Next is a copy of the numbers from which streams are to be read.
func (t *Tail) Next() map[StreamID]uint64 { return maps.Clone(t.next) }

// Back has a stream read again from a number on, by the next call. Only page calls it.
func (t *Tail) Back(id StreamID, seq uint64) {
	t.next[id] = min(t.next[id], seq)
	t.ended[id] = true
}

// Forget has streams read from their first row, if they still have any, but for those that keep
// knows. A tail that has run for long would otherwise remember all streams that there ever were.
func (t *Tail) Forget(keep func(StreamID) bool) {
	maps.DeleteFunc(t.next, func(id StreamID, _ uint64) bool { return !keep(id) })
}

// Read calls take for the rows that were not read yet, those of a stream in order. A row that it
// does not take ends its stream for this call. page is called after each request; its error ends
// the call. ErrCorrupt: a row cannot be decoded.
func (t *Tail) Read(ctx context.Context, s *store.Store, take func(StreamID, StreamRow) bool, page func() error) error {
	t.ended = map[StreamID]bool{}
	for rest := model.All(); ; {
		p := s.NewPassOver(model.JournalTable, store.Rows{Ranges: t.unread().Within(rest)}, store.JournalCells(), store.PageSize{Rows: tailRows, Bytes: store.PassBytes / 4})
		got, err := p.Next(ctx)
		p.Close()
		if err != nil {
			return err
		}
		for _, row := range got.Rows {
			id, _, ok := parseKey(row.Key)
			if ok && t.ended[id] {
				continue
			}
			r, err := decodeRow(row)
			if err != nil {
				return err
			}
			if t.ended[id] = !take(id, r); !t.ended[id] {
				t.next[id] = r.Seq + 1
			}
		}
		if err := page(); err != nil || !got.More {
			return err
		}
		rest = got.Rest
	}
}

// unread is the rows that hold entries but for those that were read, and streams that have ended.
func (t *Tail) unread() catalog.Ranges {
	var out []model.Range
	start := ""
	for _, id := range slices.Sorted(maps.Keys(t.next)) {
		out = append(out, model.Between(start, id.key(1)))
		if start = id.key(t.next[id]); t.ended[id] {
			start = id.end()
		}
	}
	return catalog.Union(append(out, model.Between(start, string([]byte{parkedShard})))...)
}
