package gc

import (
	"context"
	"slices"
	"sync"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// shareEraser erases one share.
type shareEraser struct {
	*eraser
	share   *heldShare
	catalog *model.Catalog
	rows    map[rowID]shown // read in this cycle; at most rememberedRows before a batch
}

// shown is what a row shows of the entries that name it (J7).
type shown struct {
	stays bool            // something of it is left to a later cycle, whichever entry names it
	weak  bool            // it holds a notification from before the drain had ended
	of    []tso.Timestamp // transactions that have a lock there, or a record above the watermark
	live  []expiring      // what a snapshot at the watermark sees, and later ones do not
}

// expiring is a value that expires above the watermark.
type expiring struct{ startTS, at tso.Timestamp }

// eraseShare takes a share and erases all of it. errShareLost: another collector has it.
func (g *Collector) eraseShare(ctx context.Context, sh *heldShare, name string, keep func(context.Context) error) error {
	if err := g.checkShare(ctx, sh); err != nil {
		return err
	}
	if err := g.saveShare(ctx, sh, name); err != nil {
		return err
	}
	x := &shareEraser{eraser: &eraser{Collector: g, watermark: sh.Watermark}, share: sh, catalog: g.e.Meta.Catalog.Load(), rows: map[rowID]shown{}}
	x.keep = func(ctx context.Context) error {
		if err := keep(ctx); err != nil || !sh.cell.Due() {
			return err
		}
		return g.saveShare(ctx, sh, name)
	}
	err := x.erase(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	if serr := g.saveShare(end, sh, ""); err == nil { // else its lease runs out
		err = serr
	}
	return err
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
	if len(st.Rows) == 0 { // but for an error it was over
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
	if len(x.rows) > rememberedRows {
		clear(x.rows)
	}
	if err := x.eraseNamed(ctx, rows); err != nil {
		return err
	}
	var over []uint64
	later := expiries{}
	for _, row := range rows {
		if !slices.ContainsFunc(row.Entries, x.needed) {
			over = append(over, row.Seq)
			for _, e := range row.Entries {
				x.expiresLater(e, later)
			}
		}
	}
	if err := x.file(ctx, later); err != nil { // before the entries go (J11)
		return err
	}
	return x.forget(ctx, id, over)
}

// eraseNamed erases the garbage of the rows that some entries name, if it has not read them before.
func (x *shareEraser) eraseNamed(ctx context.Context, rows []journal.StreamRow) error {
	for table, keys := range named(rows, x.watermark, x.catalog, func(id rowID) bool { _, ok := x.rows[id]; return ok }) {
		for chunk := range store.KeyChunks(keys) {
			for len(chunk) > 0 {
				n, err := x.some(ctx, table, chunk)
				if err != nil {
					return err
				}
				chunk = chunk[n:]
			}
		}
	}
	return nil
}

// some erases the garbage of the first rows of keys, in order, and returns how many it has dealt
// with: those that have few cells, or one.
func (x *shareEraser) some(ctx context.Context, table string, keys []string) (n int, err error) {
	if err := WaitLeased(ctx, x.cfg.Lease, x.delay(len(keys)), x.keep); err != nil {
		return 0, err
	}
	var page []layout.Row
	cells := 0
	err = x.e.Store.ReadRows(ctx, table, store.Rows{Keys: keys}, store.History(), 0, func(row layout.Row) bool {
		page = append(page, row)
		cells += len(row.Items)
		return cells < collectCells
	})
	if err != nil {
		return 0, err
	}
	if n = len(keys); cells >= collectCells {
		n, _ = slices.BinarySearch(keys, page[len(page)-1].Key+"\x00")
	}
	for _, key := range keys[:n] {
		x.rows[rowID{table, key}] = shown{}
	}
	if err := x.eraseRows(ctx, table, page); err != nil {
		return 0, err
	}
	return n, x.keep(ctx)
}

// eraseRows erases the garbage of rows, and notes what they show.
func (x *shareEraser) eraseRows(ctx context.Context, table string, page []layout.Row) error {
	info := x.catalog.Tables[table]
	var over []store.RowMutation
	for _, row := range page {
		p := layout.DecodePending(table, row)
		x.rows[rowID{table, row.Key}] = x.show(table, info, row, p)
		if mut := stray(x.e.Meta.Catalog.Load().Tables[table], p, x.watermark); mut != nil {
			over = append(over, store.RowMutation{Table: table, Row: row.Key, Mut: mut})
		}
	}
	var did erased
	var mu sync.Mutex
	did.left = func(key string) {
		mu.Lock()
		defer mu.Unlock()
		at := rowID{table, key}
		s := x.rows[at]
		s.stays = true
		x.rows[at] = s
	}
	err := x.page(ctx, info, page, &did)
	if err == nil {
		err = x.eraseAll(ctx, over)
	}
	x.share.Did.add(did.tally(len(page)))
	return err
}

// show says what a row shows of entries, and dispatches notifications that no worker may know of.
func (x *shareEraser) show(table string, info *model.TableInfo, row layout.Row, p layout.Pending) (s shown) {
	s.stays = len(p.Corrupt) > 0
	for col, v := range layout.DecodeRow(table, row) {
		s.stays = s.stays || v.Corrupt != nil
		// Where a later put or delete is above the watermark, its entry leads here once more.
		if b := base(v, x.watermark); b.Expires > x.watermark && b == base(v, tso.MaxTimestamp) {
			s.live = append(s.live, expiring{b.StartTS, b.Expires})
		}
		for _, l := range v.Locks {
			s.of = append(s.of, l.StartTS)
		}
		for _, w := range v.Writes {
			switch {
			case w.CommitTS <= x.watermark:
			case layout.IsTrace(col):
				s.stays = true // for I21, until it can be erased
			case w.StartTS <= x.watermark:
				s.of = append(s.of, w.StartTS)
			}
		}
	}
	newest, overdue := map[string]model.Notification{}, map[string]bool{}
	for _, n := range p.Notified {
		col := n.Cell.Column
		if n.Timestamp > x.share.Asked || p.OnlyParked(n) || !info.IsObserved[col] && !info.IsWeak[col] {
			continue
		}
		if n.Timestamp > newest[col].Timestamp {
			newest[col] = n
		}
		if n.Timestamp <= x.watermark {
			overdue[col] = true
		}
	}
	for _, n := range newest {
		x.e.Dispatch.Notified(n)
	}
	s.weak = len(newest) > 0
	s.stays = s.stays || len(overdue) > 0
	x.share.Did.Dispatched += int64(len(overdue))
	x.e.Store.Count.FoundByCollector.Add(int64(len(overdue)))
	return s
}

// stray erases what means nothing: the observer states of columns without a notification (I19), and
// notifications of columns that the schema has ceased to observe. What was notified since a column
// is observed again is above the watermark. nil: there is nothing.
func stray(info *model.TableInfo, p layout.Pending, watermark tso.Timestamp) (mut *store.Mutation) {
	erase := func(column string, upTo tso.Timestamp) {
		if mut == nil {
			mut = store.NewMutation(2)
		}
		mut.ClearNotify(column, upTo)
	}
	for _, st := range p.States {
		if !slices.ContainsFunc(p.Notified, func(n model.Notification) bool { return n.Cell == st.Cell }) {
			erase(layout.StateColumn(st), st.Through)
		}
	}
	for _, n := range p.Notified {
		if col := n.Cell.Column; info != nil && !info.IsObserved[col] && !info.IsWeak[col] && n.Timestamp <= watermark {
			erase(col, watermark)
		}
	}
	return mut
}

// needed reports whether an entry has to stay for a later cycle (J7). What its rows held was read
// in this cycle, after the drain.
func (x *shareEraser) needed(e journal.Entry) bool {
	return e.StartTS > x.watermark || slices.ContainsFunc(e.Rows, func(r journal.Row) bool {
		s := x.rows[rowID{r.Table, r.Key}]
		return s.stays || r.Weak && s.weak || slices.Contains(s.of, e.StartTS)
	})
}
