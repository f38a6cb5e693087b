package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// StreamRow is a row of a stream as it was read.
type StreamRow struct {
	Seq     uint64
	Entries []model.JournalEntry
	told    []byte // of earlier transactions of the stream; nil: nothing
}

// Committed is the transactions that the row tells of.
func (r StreamRow) Committed() []Committed { return decodeCommitted(r.told) }

// Stream is the header of a stream.
type Stream struct {
	ID      StreamID
	Session string // of its client; "": the oracle keeps none
	Low     uint64 // every row below it is settled, or in Open
	Open    Open
	Header  bool // its client's header is there; else only a position that came late, or nothing
	Rows    bool // it has rows with entries; only AllStreams knows
}

// ReadRows reads rows of a stream by their numbers; those that are gone are missing.
func ReadRows(ctx context.Context, s *store.Store, id StreamID, seqs []uint64) (rows []StreamRow, err error) {
	for chunk := range slices.Chunk(seqs, store.RequestRows) {
		keys := ordered.Map(chunk, id.key)
		var bad error
		err := s.ReadRows(ctx, model.JournalTable, store.Rows{Keys: keys}, store.JournalCells(), 0, func(row layout.Row) bool {
			r, err := decodeRow(row)
			rows, bad = append(rows, r), errors.Join(bad, err)
			return true
		})
		if err = errors.Join(err, bad); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// ReadSome is ReadRows, in one request, that ends once the rows name as many rows of tables as
// names; it is through with the first read of seqs. ErrCorrupt: some cannot be decoded, and have no
// entries.
func ReadSome(ctx context.Context, s *store.Store, id StreamID, seqs []uint64, names int) (rows []StreamRow, read int, err error) {
	if len(seqs) == 0 {
		return nil, 0, nil
	}
	seqs = seqs[:min(len(seqs), store.RequestRows)]
	keys := ordered.Map(seqs, id.key)
	read = len(seqs)
	var bad error
	err = s.ReadRows(ctx, model.JournalTable, store.Rows{Keys: keys}, store.JournalCells(), 0, func(row layout.Row) bool {
		r, err := decodeRow(row)
		rows, bad = append(rows, r), errors.Join(bad, err)
		for _, e := range r.Entries {
			names -= len(e.Rows)
		}
		if names > 0 {
			return true
		}
		read = 1 + slices.Index(seqs, r.Seq)
		return false
	})
	if err != nil {
		return nil, 0, err
	}
	return rows, read, bad
}

// ReadStream streams the rows of a stream from a number on, at most most at once. There may be none
// at once where many were deleted.
func ReadStream(ctx context.Context, s *store.Store, id StreamID, from uint64, most int) iter.Seq2[[]StreamRow, error] {
	return func(yield func([]StreamRow, error) bool) {
		for page, err := range streamPages(ctx, s, id, from, store.PageSize{Rows: most}) {
			rows := make([]StreamRow, len(page.Rows))
			for i, row := range page.Rows {
				if err == nil {
					rows[i], err = decodeRow(row)
				}
			}
			if err != nil {
				rows = nil
			}
			if !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

func streamPages(ctx context.Context, s *store.Store, id StreamID, from uint64, size store.PageSize) iter.Seq2[store.Page, error] {
	size.Bytes = store.PassBytes
	return s.NewPass(model.JournalTable, model.Between(id.key(max(from, 1)), id.end()), store.JournalCells(), size).Pages(ctx)
}

// HasRows reports whether a stream has rows from a number on.
func HasRows(ctx context.Context, s *store.Store, id StreamID, from uint64) (bool, error) {
	for page, err := range streamPages(ctx, s, id, from, store.PageSize{Rows: 1}) {
		if err != nil || len(page.Rows) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// FirstRow is the number of the first row of a stream that is there, or may be.
func FirstRow(ctx context.Context, s *store.Store, id StreamID) (uint64, error) {
	page, err := s.ReadPage(ctx, model.JournalTable, model.Between(id.key(1), id.end()), store.Anything(), store.PageSize{Rows: 1})
	if err != nil || len(page.Rows) == 0 {
		return 1, err
	}
	_, seq, _ := parseKey(page.Rows[0].Key)
	return seq, nil
}

func decodeRow(row layout.Row) (StreamRow, error) {
	_, seq, ok := parseKey(row.Key)
	if !ok {
		return StreamRow{}, foreign(row.Key)
	}
	r := StreamRow{Seq: seq}
	for _, it := range row.Of(layout.JournalFamily) {
		if it.Column == committedColumn {
			r.told = it.Value
		}
	}
	var err error
	r.Entries, err = batchOf(row)
	return r, err
}

// Streams reads the headers of all streams. ErrCorrupt: one cannot be decoded, and the list has the
// others.
func Streams(ctx context.Context, s *store.Store) (list []Stream, err error) {
	for row, rerr := range headers(ctx, s, 0, shards) {
		if rerr != nil {
			return nil, rerr
		}
		if st, bad := streamOf(row); bad == nil {
			list = append(list, st)
		} else {
			err = bad
		}
	}
	return list, err
}

// AllStreams is Streams with those that have rows and no header (J6). It sends a request for each
// stream that has rows, shardsAtOnce at a time.
func AllStreams(ctx context.Context, s *store.Store) ([]Stream, error) {
	return streamsOf(ctx, s, 0, shards)
}

// StreamsOf is AllStreams of one shard.
func StreamsOf(ctx context.Context, s *store.Store, shard byte) ([]Stream, error) {
	return streamsOf(ctx, s, shard, shard+1)
}

// streamsOf is the streams of the shards from from to below to.
func streamsOf(ctx context.Context, s *store.Store, from, to byte) (list []Stream, err error) {
	at := map[StreamID]int{}
	for row, err := range headers(ctx, s, from, to) {
		if err != nil {
			return nil, err
		}
		st, err := streamOf(row)
		if err != nil {
			return nil, err
		}
		at[st.ID], list = len(list), append(list, st)
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(shardsAtOnce)
	for part := from; part < to; part += shards / shardsAtOnce {
		of := model.Between(string([]byte{part}), string([]byte{min(to, part+shards/shardsAtOnce)}))
		g.Go(func() error {
			for row, err := range firstRows(gctx, s, of) {
				if err != nil {
					return err
				}
				st, err := streamOf(row)
				if err != nil {
					return err
				}
				st.Rows = true
				mu.Lock()
				if i, known := at[st.ID]; known {
					list[i].Rows = true
				} else {
					list = append(list, st)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return list, nil
}

// shardsAtOnce is how many parts of the table are searched for streams at once.
const shardsAtOnce = 8

// headers reads the headers of streams of the shards from from to below to.
func headers(ctx context.Context, s *store.Store, from, to byte) iter.Seq2[layout.Row, error] {
	of := model.Between(string([]byte{headerShard, from}), string([]byte{headerShard, to}))
	if to == shards { // with rows that are no header, which are an error
		of.End = string([]byte{headerShard + 1})
	}
	size := store.PageSize{Rows: store.RequestRows, Bytes: store.PassBytes}
	pages := s.NewPass(model.JournalTable, of, store.JournalCells(), size).Pages(ctx)
	return store.Each(pages, func(page store.Page) ([]layout.Row, error) { return page.Rows, nil })
}

// firstRows reads the first row of each stream in a range that has rows. It skips from one to the
// next: what is read grows with the streams, not with their rows.
func firstRows(ctx context.Context, s *store.Store, rest model.Range) iter.Seq2[layout.Row, error] {
	return func(yield func(layout.Row, error) bool) {
		for {
			page, err := s.ReadPage(ctx, model.JournalTable, rest, store.JournalCells(), store.PageSize{Rows: 1})
			switch {
			case err != nil:
				yield(layout.Row{}, err)
				return
			case len(page.Rows) > 0:
				if !yield(page.Rows[0], nil) {
					return
				}
				rest = page.Rest
				if id, _, ok := parseKey(page.Rows[0].Key); ok {
					rest.Start = id.end()
				}
			case page.More:
				rest = page.Rest
			default:
				return
			}
		}
	}
}

// IsOpen reports whether a row may have left locks: it is not settled, or only counts as settled.
func (st Stream) IsOpen(seq uint64) bool { return seq >= st.Low || st.Open.Contains(seq) }

// streamOf reads a header. A stream whose header is gone, and which still has rows, has no session.
func streamOf(row layout.Row) (Stream, error) {
	id, seq, ok := parseKey(row.Key)
	if !ok {
		return Stream{}, foreign(row.Key)
	}
	st := Stream{ID: id, Low: 1}
	for _, it := range row.Of(layout.JournalFamily) {
		switch {
		case seq > 0:
		case it.Column == sessionColumn:
			h, err := decodeHeader(it.Value)
			if err != nil {
				return st, corrupt(row.Key, err)
			}
			st.Session, st.Header = h.Session, true
		case it.Column == lowColumn:
			low, err := layout.FromCell(it.Timestamp)
			if err != nil {
				return st, corrupt(row.Key, err)
			}
			st.Low = max(st.Low, uint64(low))
			st.Open = decodeOpen(st.Low, it.Value)
		}
	}
	return st, nil
}

func batchOf(row layout.Row) ([]model.JournalEntry, error) {
	for _, it := range row.Of(layout.JournalFamily) {
		if it.Column == batchColumn {
			entries, err := DecodeBatch(it.Value)
			if err != nil {
				return nil, corrupt(row.Key, err)
			}
			return entries, nil
		}
	}
	return nil, corrupt(row.Key, errBatch)
}

func foreign(key string) error {
	return fmt.Errorf("percolator: %w: row %q of %s is of no stream", model.ErrCorrupt, key, model.JournalTable)
}

func corrupt(key string, err error) error {
	at := fmt.Sprintf("row %q", key)
	if id, seq, ok := parseKey(key); ok {
		at = fmt.Sprintf("row %d of stream %s", seq, id)
	}
	return fmt.Errorf("percolator: %w: %s of %s: %w", model.ErrCorrupt, at, model.JournalTable, err)
}

// WriteLow stores how far streams are settled. The greatest number counts, whichever arrives last.
func WriteLow(ctx context.Context, s *store.Store, lows map[StreamID]Low) error {
	for id, low := range lows {
		mut := store.NewMutation(1)
		low.put(mut)
		if err := s.Mutate(ctx, model.JournalTable, id.key(0), mut); err != nil {
			return err
		}
	}
	return nil
}

// Forget deletes rows of a stream.
func Forget(ctx context.Context, s *store.Store, id StreamID, seqs []uint64) error {
	return EraseRows(ctx, s, ordered.Map(seqs, id.key))
}

// EraseRows deletes rows of percolator_journal.
func EraseRows(ctx context.Context, s *store.Store, keys []string) error {
	for chunk := range slices.Chunk(keys, store.RequestRows) {
		muts := make([]*store.Mutation, len(chunk))
		for i := range chunk {
			muts[i] = store.NewMutation(1)
			muts[i].EraseRow()
		}
		errs, err := s.MutateRows(ctx, model.JournalTable, chunk, muts)
		if err = errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}
