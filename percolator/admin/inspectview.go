package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// afterLocks is what a column will be once a reader has resolved the locks at or below ts: those of
// committed transactions become records, those of dead ones go, live ones stay.
func (in *inspection) afterLocks(d *decoded, ts tso.Timestamp) *layout.Versions {
	v := d.Versions
	v.Locks = nil
	after := &v
	for _, l := range d.Locks {
		switch s := in.judged.inspect(model.Cell{}, l); s.State {
		case LockStateCommitted:
			after, _ = after.Committed(l, s.CommitTS, 0)
		case LockStateAlive, LockStateUndecodable:
			if l.StartTS <= ts {
				after.Locks = append(after.Locks, l)
			}
		}
	}
	return after
}

// view is what a reader at in.row.AsOf finds in a column, by the rules of ReadCells. It reads older
// records where those that are shown do not reach down to the snapshot.
func (in *inspection) view(ctx context.Context, col *inspectedColumn) (ReaderView, error) {
	ts := in.row.AsOf
	if ts <= in.row.Safepoint {
		return ReaderView{State: ReaderTooOld, Reason: "the snapshot is at or below the safepoint " + text.At(in.row.Safepoint)}, nil
	}
	if reason := col.spoilt(ts); reason != "" {
		return ReaderView{State: ReaderCorrupt, Reason: reason}, nil
	}
	view := ReaderView{Size: -1}
	for _, l := range col.decoded.Locks {
		if l.StartTS > ts {
			continue
		}
		switch s := in.judged.inspect(model.Cell{}, l); s.State {
		case LockStateAlive:
			return ReaderView{State: ReaderWaits, StartTS: l.StartTS, Size: -1}, nil
		case LockStateUndecodable:
			return ReaderView{State: ReaderCorrupt, Reason: s.Reason, Size: -1}, nil
		case LockStateCommitted:
			view.Resolves = model.LockRolledForward
		default:
			view.Resolves = model.LockRolledBack
		}
	}
	w, ok, err := in.newestAt(ctx, col, ts)
	switch {
	case err != nil:
		return ReaderView{}, err
	case !ok:
		view.State = ReaderUnread
	case w.Kind == 0:
		view.State = ReaderAbsent
	default:
		view.CommitTS, view.StartTS, view.State = w.CommitTS, w.StartTS, ReaderDeleted
		if w.Kind == layout.KindPut && !w.Expired(ts) {
			return in.withData(ctx, col, view)
		}
	}
	return view, nil
}

// spoilt says why a read at ts fails on this column: a lock, or the newest cell of another family,
// at or below ts cannot be decoded.
func (col *inspectedColumn) spoilt(ts tso.Timestamp) string {
	newest := map[string]tso.Timestamp{}
	newest[layout.WriteFamily] = col.readDownTo(ts)
	for _, d := range slices.Backward(col.Data) {
		if d.StartTS <= ts {
			newest[layout.DataFamily] = d.StartTS
		}
	}
	for _, b := range col.bad {
		if b.Family == layout.NotifyFamily || b.Timestamp >= int64(layout.CellTime(ts+1)) || b.Timestamp < int64(layout.CellTime(newest[b.Family])) {
			continue
		}
		return fmt.Sprintf("the %s cell at %d cannot be decoded: %s", b.Family, b.Timestamp, b.Reason)
	}
	return ""
}

// readDownTo is the oldest record that a reader at ts looks at: it asks for four times as many as
// long as it has seen no change.
func (col *inspectedColumn) readDownTo(ts tso.Timestamp) tso.Timestamp {
	oldest := tso.Timestamp(0)
	seen, window, changed := 0, 1, false
	for _, w := range col.Writes {
		if w.CommitTS > ts {
			continue
		}
		if seen == window {
			if changed {
				return oldest
			}
			window *= 4
		}
		seen, oldest, changed = seen+1, w.CommitTS, changed || w.Kind.Changes()
	}
	if seen < window || !changed {
		return 0
	}
	return oldest
}

// newestAt is the put or delete that decides at ts; of kind 0 if there is none. ok: it is known.
func (in *inspection) newestAt(ctx context.Context, col *inspectedColumn, ts tso.Timestamp) (w layout.WriteRecord, ok bool, err error) {
	return in.newestOf(ctx, col.name, &col.decoded, col.cut[layout.WriteFamily], ts, layout.Kind.Changes)
}

// newestOf is the newest record of a column, which may be a reserved one, of the kinds that count;
// of kind 0 if there is none.
func (in *inspection) newestOf(
	ctx context.Context, column string, d *decoded, cut bool, ts tso.Timestamp, counts func(layout.Kind) bool,
) (w layout.WriteRecord, ok bool, err error) {
	after := in.afterLocks(d, ts)
	find := func(records []layout.WriteRecord) bool {
		i := slices.IndexFunc(records, func(w layout.WriteRecord) bool { return w.CommitTS <= ts && counts(w.Kind) })
		if i >= 0 {
			w = records[i]
		}
		return i >= 0
	}
	if find(after.Writes) || !cut {
		return w, true, nil
	}
	for n := 4 * in.opts.Versions; ; n *= 4 {
		filter := store.Records(column, ts, n)
		rv, err := in.e.Store.ReadVersions(ctx, in.row.Table, in.row.Row, filter)
		if err != nil {
			return w, false, err
		}
		seen := rv[column]
		switch {
		case seen == nil:
			return w, true, nil
		case find(seen.Writes) || len(seen.Writes) < n && seen.Corrupt == nil:
			return w, true, nil
		case n >= MaxInspectCells || seen.Corrupt != nil:
			return w, false, nil
		}
	}
}

// withData finds out whether the data that a put names is there; it may be older than what is
// shown.
func (in *inspection) withData(ctx context.Context, col *inspectedColumn, view ReaderView) (ReaderView, error) {
	view.State = ReaderValue
	has, _ := col.hasData(view.StartTS, col.cut[layout.DataFamily])
	// The record was cut off, or read after the row and younger than it.
	if !has {
		filter := store.HasData(col.name, view.StartTS)
		r, err := in.e.Store.ReadRow(ctx, in.row.Table, in.row.Row, filter)
		if err != nil {
			return view, err
		}
		has = len(r.Of(layout.DataFamily)) > 0
	}
	switch {
	case has:
	case view.CommitTS <= in.row.Watermark:
		// Phase two left this after the collector had passed.
		view.State, view.CommitTS, view.StartTS = ReaderAbsent, 0, 0
	default:
		view.State = ReaderCorrupt
		view.Reason = fmt.Sprintf("the put record at %d names data at %d, which does not exist", view.CommitTS, view.StartTS)
	}
	return view, nil
}
