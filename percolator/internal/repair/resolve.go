package repair

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// survey is what one pass over all cells has found.
type survey struct {
	greatest tso.Timestamp
	locks    []heldCell
	more     bool // there are more locks than fit
}

type heldCell struct {
	cell model.Cell
	layout.LockRecord
	changed tso.Timestamp // of the lock of an acknowledgment: see lostChange
}

// resolve resolves every lock, and notes in next the greatest timestamp of all cells. It is stored
// before any cell goes, because it cannot be found later.
func (r *run) resolve(ctx context.Context, next *meta.Repair) error {
	for {
		s, err := r.survey(ctx)
		if err != nil {
			return err
		}
		next.Greatest = s.greatest
		if found := r.repair; found.Greatest != s.greatest {
			found.Greatest = s.greatest
			if err := r.enter(ctx, found); err != nil {
				return err
			}
		}
		resolved, err := r.resolveAll(ctx, s.locks)
		switch {
		case err != nil || !s.more:
			return err
		case resolved == 0:
			return catalog.CellError(model.ErrCorrupt, s.locks[0].cell, "the lock, and %d more, contradict the protocol, so others cannot be looked at; percolator row shows what is stored", len(s.locks)-1)
		}
	}
}

// survey reads everything but values.
func (r *run) survey(ctx context.Context) (*survey, error) {
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	s := &survey{greatest: max(r.repair.To, r.repair.Greatest, m.Safepoint, m.Watermark, m.Now)}
	for _, h := range m.Holds {
		if h.Timestamp <= tso.MaxTimestamp { // otherwise it was released
			s.greatest = max(s.greatest, h.Timestamp)
		}
	}
	err = r.eachPage(ctx, store.History(), func(ctx context.Context, table string, rows []layout.Row) error {
		for _, row := range rows {
			r.surveyRow(s, table, row)
		}
		return nil
	})
	r.count(func(rep *model.RepairReport) { rep.Greatest = s.greatest })
	return s, err
}

func (r *run) surveyRow(s *survey, table string, row layout.Row) {
	for _, it := range row.Items {
		cell := model.Cell{Table: table, Row: row.Key, Column: it.Column}
		ts, err := layout.FromCell(it.Timestamp)
		if err == nil && it.Family == layout.LockFamily {
			var l layout.LockRecord
			if l, err = layout.DecodeLock(it.Timestamp, it.Value); err == nil {
				r.mu.Lock()
				s.greatest = max(s.greatest, l.Placed)
				if len(s.locks) < maxLocks {
					s.locks = append(s.locks, heldCell{cell, l, r.lostChange(cell, row)})
				} else {
					s.more = true
				}
				r.mu.Unlock()
			}
		}
		if err != nil && ts <= r.repair.To { // what is above goes in any case
			r.find(cell, ts, 0, fmt.Sprintf("left alone: %v", err))
		}
		r.mu.Lock()
		s.greatest = max(s.greatest, ts)
		r.mu.Unlock()
	}
}

// outcome is what became of a transaction at the timestamp of the repair.
type outcome struct {
	primary   model.Cell
	committed tso.Timestamp // at or below it; 0: not
	decided   bool          // by its primary, or because it began too late
	gone      bool          // its primary's record may be: its table was dropped after To
	problem   string
}

// left reports that the lock stays: it contradicts the protocol, and nothing says that it may go.
func (o *outcome) left() bool { return o.problem != "" && o.committed == 0 }

// outcomes decides the transactions of some locks.
func (r *run) outcomes(ctx context.Context, held []heldCell) (map[tso.Timestamp]*outcome, error) {
	all := map[tso.Timestamp]*outcome{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, l := range held {
		if all[l.StartTS] != nil {
			continue
		}
		o := &outcome{primary: l.Primary, decided: l.StartTS >= r.repair.To}
		if all[l.StartTS] = o; !o.decided {
			g.Go(func() error { return r.askPrimary(gctx, l.StartTS, o) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	oldest := r.repair.To + 1
	for start, o := range all {
		if !o.decided {
			oldest = min(oldest, start)
		}
	}
	if oldest > r.repair.To {
		return all, nil
	}
	return all, r.askOthers(ctx, oldest, all)
}

// askPrimary decides a transaction if its primary has its record. One whose primary's table was
// dropped after it began has not committed (I26), unless others know better. That rests on the
// drop's resolution of locks, which a cut may lack where the drop is later than To.
func (r *run) askPrimary(ctx context.Context, start tso.Timestamp, o *outcome) error {
	switch {
	case slices.Contains(r.tables, o.primary.Table):
	case r.e.Meta.WasDropped(o.primary.Table, start):
		o.gone = r.e.Meta.WasDropped(o.primary.Table, r.repair.To+1)
		return nil
	default:
		o.problem = fmt.Sprintf("its lock names a primary in table %q, which is not in the schema", o.primary.Table)
		return nil
	}
	rv, err := r.e.Store.ReadVersions(ctx, o.primary.Table, o.primary.Row, store.Primary(o.primary.Column, start))
	if o.gone = r.deleted(o.primary.Table, err); o.gone {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := locks.StatusOf(o.primary, start, rv[o.primary.Column])
	switch {
	case err != nil:
		o.problem = err.Error()
	case s.State == locks.TxnCommitted:
		o.decided = true
		if s.CommitTS <= r.repair.To {
			o.committed = s.CommitTS
		}
	}
	return nil
}

// askOthers looks for records of the transactions that their primaries do not know as committed.
// There are none if the timestamp of the repair was complete. Where there are several, which the
// protocol does not allow, the least commit timestamp counts, in every attempt.
func (r *run) askOthers(ctx context.Context, oldest tso.Timestamp, all map[tso.Timestamp]*outcome) error {
	return r.eachPage(ctx, store.RecordsFrom(oldest, r.repair.To), func(ctx context.Context, table string, rows []layout.Row) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, row := range rows {
			for _, it := range row.Items {
				w, err := layout.DecodeWrite(it.Timestamp, it.Value)
				if o := all[w.StartTS]; err == nil && o != nil && !o.decided && w.Kind != layout.KindRollback && (o.committed == 0 || w.CommitTS < o.committed) {
					o.committed = w.CommitTS
				}
			}
		}
		return nil
	})
}

// resolveAll rolls locks forward or back, and reports those that were not simply decided.
func (r *run) resolveAll(ctx context.Context, held []heldCell) (resolved int, err error) {
	all, err := r.outcomes(ctx, held)
	if err != nil {
		return 0, err
	}
	muts := map[string]*batch{} // by table
	for _, l := range held {
		o := all[l.StartTS]
		r.tell(l, o)
		if r.opts.DryRun || o.left() {
			continue
		}
		resolved++
		b := muts[l.cell.Table]
		if b == nil {
			b = &batch{r: r, table: l.cell.Table}
			muts[l.cell.Table] = b
		}
		mut := b.of(l.cell.Row)
		if o.committed != 0 {
			mut.Commit(l.cell.Column, l.Kind, l.StartTS, o.committed, l.Observed, l.Life)
		} else {
			r.notifyAfterRun(mut, l)
			mut.RollBack(l.cell.Column, l.StartTS)
		}
		if err := b.full(ctx); err != nil {
			return resolved, err
		}
	}
	for _, b := range muts {
		if err := b.send(ctx); err != nil {
			return resolved, err
		}
	}
	return resolved, nil
}

// lostChange is the newest change, up to the timestamp of the repair, of the observed cell that a
// locked acknowledgment is for, if no notification of it is there; else 0.
func (r *run) lostChange(ack model.Cell, row layout.Row) (changed tso.Timestamp) {
	of, _, ok := layout.Acknowledged(ack.Column)
	if info := r.e.Meta.Catalog.Load().Tables[ack.Table]; !ok || info == nil || !info.IsObserved[of] {
		return 0
	}
	for _, it := range row.Of(layout.WriteFamily) {
		if w, err := layout.DecodeWrite(it.Timestamp, it.Value); err == nil && it.Column == of && w.CommitTS <= r.repair.To && w.Kind.Changes() {
			changed = max(changed, w.CommitTS)
		}
	}
	for _, it := range row.Of(layout.NotifyFamily) {
		if it.Column == of && it.Timestamp <= layout.CellTime(r.repair.To) && it.Timestamp >= layout.CellTime(changed) {
			return 0
		}
	}
	return changed
}

// notifyAfterRun dirties the observed cell of an acknowledgment that is rolled back: who knew that
// the run had committed, above the timestamp of the repair, may have erased the notification. Its
// timestamp is that of the change, so that who was parked for that stays parked (I19).
func (r *run) notifyAfterRun(mut *store.Mutation, ack heldCell) {
	if of, observer, ok := layout.Acknowledged(ack.cell.Column); ok && ack.changed != 0 {
		r.unpark(mut, of, observer)
		mut.Put(layout.NotifyFamily, of, ack.changed, nil)
		r.count(func(rep *model.RepairReport) { rep.Renotified++ })
	}
}

// unpark has an observer run again whose run is taken back. It may have run for a later
// notification than the one that it was parked for, and then been stopped before it erased that it
// was.
func (r *run) unpark(mut *store.Mutation, column, observer string) {
	parked := model.ObserverState{Cell: model.Cell{Column: column}, Observer: observer}
	mut.ClearNotify(layout.StateColumn(parked), r.repair.To)
}

// tell counts a lock, and reports it if its primary did not decide.
func (r *run) tell(l heldCell, o *outcome) {
	switch {
	case o.decided:
	case o.committed != 0:
		r.find(l.cell, l.StartTS, o.committed, fmt.Sprintf("rolled forward: a record at %d says that the transaction committed, its primary %s does not", o.committed, o.primary))
	case o.left():
		r.find(l.cell, l.StartTS, 0, "left alone: "+o.problem)
		return
	case o.gone:
		r.find(l.cell, l.StartTS, 0, fmt.Sprintf("rolled back: the table of the primary %s was dropped after the timestamp of the repair, with the record that the primary may have had", o.primary))
	case l.StartTS <= r.repair.Sound:
		r.find(l.cell, l.StartTS, 0, fmt.Sprintf("rolled back: the primary %s has no record, which collection may have removed", o.primary))
	}
	r.count(func(rep *model.RepairReport) {
		if o.committed != 0 {
			rep.RolledForward++
		} else {
			rep.RolledBack++
		}
	})
}
