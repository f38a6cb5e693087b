package gc

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// shareEraser erases one share: it takes the streams of it one after the other.
type shareEraser struct {
	*rowEraser
	share *heldShare
}

// eraseShare takes a share and erases all of it. rows is what the collector has read for other
// shares of the cycle. errShareLost: another collector has it.
func (g *Collector) eraseShare(ctx context.Context, sh *heldShare, name string, rows findings, keep func(context.Context) error) error {
	if err := g.checkShare(ctx, sh); err != nil {
		return err
	}
	return g.holdShares(ctx, []*heldShare{sh}, name, keep, func(_ []*heldShare, keep func(context.Context) error) error {
		x := &shareEraser{newRowEraser(&eraser{g, sh.Watermark, keep}, sh.Asked, rows, &sh.Did), sh}
		return x.erase(ctx)
	})
}

func (x *shareEraser) erase(ctx context.Context) error {
	for !x.share.done() {
		st := &x.share.Streams[0]
		if err := x.stream(ctx, st); err != nil {
			return err
		}
		x.share.Streams = x.share.Streams[1:]
	}
	return nil
}

// stream erases what the rows of a stream name. It takes from the share what is decided.
func (x *shareEraser) stream(ctx context.Context, st *streamRows) error {
	if len(st.Rows) == 0 { // done, before an error
		return nil
	}
	id := journal.StreamID(st.ID)
	for rows, err := range journal.ReadStream(ctx, x.e.Store, id, st.Rows[0], journalRows) {
		if err != nil {
			return err
		}
		through := uint64(0)
		if len(rows) > 0 {
			through = rows[len(rows)-1].Seq
		}
		rows = slices.DeleteFunc(rows, func(r journal.StreamRow) bool { return !st.Rows.contains(r.Seq) })
		if err := x.batch(ctx, id, rows); err != nil {
			return err
		}
		if st.Rows = st.Rows.after(through); len(st.Rows) == 0 {
			break
		}
		if err := x.keep(ctx); err != nil {
			return err
		}
	}
	st.Rows = nil // what is left of them is gone
	return x.keep(ctx)
}

// batch erases the garbage of the rows that some entries name, and then the rows of the journal
// whose entries may all go.
func (x *shareEraser) batch(ctx context.Context, id journal.StreamID, rows []journal.StreamRow) error {
	if err := x.eraseNamed(ctx, rows); err != nil {
		return err
	}
	var done []uint64
	later := expiries{}
	for _, row := range rows {
		if !slices.ContainsFunc(row.Entries, x.needed) {
			done = append(done, row.Seq)
			for _, e := range row.Entries {
				x.expiresLater(e, later)
			}
		}
	}
	if err := x.file(ctx, later); err != nil { // before the entries go (J11)
		return err
	}
	return x.forget(ctx, id, done)
}

// needed reports whether an entry has to stay for a later cycle (J7). What its rows held was read
// in this cycle, after the drain.
func (x *shareEraser) needed(e model.JournalEntry) bool {
	return e.StartTS > x.watermark || x.unread.above(e) || slices.ContainsFunc(e.Rows, func(r model.JournalName) bool {
		return x.rows[layout.RowID{Table: r.Table, Key: r.Key}].keeps(e.StartTS, r.Weak) // of what was not read: nothing
	})
}
