package repair

import (
	"context"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// remove erases what is above the timestamp of the repair, and makes notifications those of it.
func (r *run) remove(ctx context.Context) error {
	return r.eachPage(ctx, store.History(), func(ctx context.Context, table string, rows []layout.Row) error {
		info, known := r.e.Meta.Catalog.Load().Tables[table]
		if !known { // a late request has ended the drop of it
			return nil
		}
		b := &batch{r: r, table: table}
		for _, row := range rows {
			x := removal{run: r, info: info, row: row, mut: func() *store.Mutation { return b.of(row.Key) }}
			x.do()
			r.count(x.add)
		}
		if r.opts.DryRun {
			return nil
		}
		return b.send(ctx)
	})
}

// removal is what is to be done to one row.
type removal struct {
	*run
	info *catalog.TableInfo
	row  layout.Row
	mut  func() *store.Mutation // to which changes are added
	sum  model.RepairReport
}

func (x *removal) add(rep *model.RepairReport) {
	rep.Records += x.sum.Records
	rep.Markers += x.sum.Markers
	rep.Data += x.sum.Data
	rep.Notifications += x.sum.Notifications
	rep.States += x.sum.States
	rep.Renotified += x.sum.Renotified
	rep.WeakRenotified += x.sum.WeakRenotified
}

// do lists the changes in an order in which any first part of them may be applied: what shows that
// something is to be done goes last.
func (x *removal) do() {
	x.notifyAgain()
	x.notifyWeakAgain()
	x.eraseStates()
	x.eraseData()
	for _, family := range [...]string{layout.NotifyFamily, layout.LockFamily, layout.WriteFamily} {
		x.eraseNewer(family)
	}
}

// newer reports whether an item lies above the timestamp of the repair. Of one whose timestamp
// cannot be decoded nothing is known.
func (x *removal) newer(it *layout.Item) bool { return it.Timestamp > layout.CellTime(x.repair.To) }

// eraseNewer erases what is newer in a family, and no more than the survey has seen: a late
// repetition must not reach what is written after the repair.
func (x *removal) eraseNewer(family string) {
	items := x.row.Of(family)
	for i := range items {
		it := &items[i]
		if !x.newer(it) {
			continue
		}
		x.erased(it)
		if i == 0 || items[i-1].Column != it.Column { // the newest
			x.mut().EraseBetween(family, it.Column, x.repair.To+1, x.repair.Greatest+1)
		}
	}
}

// erased counts an item.
func (x *removal) erased(it *layout.Item) {
	switch it.Family {
	case layout.WriteFamily:
		if w, err := layout.DecodeWrite(it.Timestamp, it.Value); err == nil && w.Kind == layout.KindRollback {
			x.sum.Markers++
		} else {
			x.sum.Records++
		}
	case layout.NotifyFamily:
		if _, _, _, ok := layout.ObserverStateColumn(it.Column); ok {
			x.sum.States++
		} else {
			x.sum.Notifications++
		}
	}
}

// eraseData erases values that are newer, and those that a newer record names.
func (x *removal) eraseData() {
	type version struct {
		column string
		start  tso.Timestamp
	}
	gone, held := map[version]bool{}, map[version]bool{}
	for _, it := range x.row.Of(layout.WriteFamily) {
		if w, err := layout.DecodeWrite(it.Timestamp, it.Value); err == nil && w.Kind == layout.KindPut && x.newer(&it) {
			gone[version{it.Column, w.StartTS}] = true
		}
	}
	// The repair leaves these locks alone, or a dry run has counted them.
	for _, it := range x.row.Of(layout.LockFamily) {
		held[version{it.Column, tso.Timestamp(it.Timestamp / 1000)}] = x.opts.DryRun || !x.newer(&it)
	}
	items := x.row.Of(layout.DataFamily)
	for i := range items {
		it := &items[i]
		v := version{it.Column, tso.Timestamp(it.Timestamp / 1000)}
		switch newer := x.newer(it); {
		case held[v] || !newer && !gone[v]:
			continue
		case !newer:
			x.mut().Erase(layout.DataFamily, it.Column, v.start)
		case i == 0 || items[i-1].Column != it.Column:
			x.mut().EraseBetween(layout.DataFamily, it.Column, x.repair.To+1, x.repair.Greatest+1)
		}
		x.sum.Data++
	}
}

// undoneRun is of an observer that ran above the timestamp of the repair: the last run that stays.
type undoneRun struct {
	column, observer string
	last             tso.Timestamp
}

// notifyAgain dirties the observed cells whose newest change some observer has not acknowledged:
// that of an observer which ran above the timestamp of the repair is gone, and so may be the
// notification.
func (x *removal) notifyAgain() {
	if len(x.info.Observed) == 0 {
		return
	}
	// Both are by column: the newest change, and the oldest last run.
	changed, runs := map[string]tso.Timestamp{}, map[string]tso.Timestamp{}
	var undone []undoneRun
	for column, v := range layout.DecodeRow(x.info.Name, x.row) {
		if of, observer, ok := layout.Acknowledged(column); ok {
			last, ran := x.lastRun(v)
			if before, known := runs[of]; !known || last < before {
				runs[of] = last
			}
			if ran {
				undone = append(undone, undoneRun{of, observer, last})
			}
		} else if x.info.IsObserved[column] {
			for _, w := range v.Writes {
				if w.CommitTS <= x.repair.To && w.Kind.Changes() {
					changed[column] = max(changed[column], w.CommitTS)
				}
			}
		}
	}
	notified := map[string]bool{}
	for _, it := range x.row.Of(layout.NotifyFamily) {
		if !x.newer(&it) && it.Timestamp >= layout.CellTime(changed[it.Column]) {
			notified[it.Column] = true
		}
	}
	for _, u := range undone {
		if u.last < changed[u.column] {
			x.unpark(x.mut(), u.column, u.observer)
		}
	}
	for column, commit := range changed {
		if last, known := runs[column]; known && last < commit && !notified[column] {
			x.mut().Put(layout.NotifyFamily, column, commit, nil)
			x.sum.Renotified++
		}
	}
}

// lastRun is the start timestamp of the newest run that stays, and whether there was one above the
// timestamp of the repair. An observer that was forgotten, and has not run since, needs none.
func (x *removal) lastRun(v *layout.Versions) (last tso.Timestamp, ran bool) {
	for _, w := range v.Writes { // newest first
		switch {
		case w.CommitTS > x.repair.To:
			ran = ran || w.Kind == layout.KindLock
		case w.Kind == layout.KindLock:
			return w.StartTS, ran
		case w.Kind == layout.KindDelete && !ran:
			return tso.MaxTimestamp, false
		case w.Kind == layout.KindDelete:
			return 0, ran
		}
	}
	return 0, ran
}

// notifyWeakAgain goes by the traces that are left while there is a hold (I21).
func (x *removal) notifyWeakAgain() {
	items := x.row.Of(layout.WriteFamily)
	for i, it := range items {
		column, ok := strings.CutPrefix(it.Column, layout.TracePrefix)
		if newest := i == 0 || items[i-1].Column != it.Column; ok && newest && x.newer(&it) {
			x.mut().Put(layout.NotifyFamily, column, x.repair.To, nil)
			x.sum.WeakRenotified++
		}
	}
}

// eraseStates erases which observers are done, because the run that says so may go, and which are
// parked since a later time. Workers find out anew (I19).
func (x *removal) eraseStates() {
	for _, it := range x.row.Of(layout.NotifyFamily) {
		of, observer, done, ok := layout.ObserverStateColumn(it.Column)
		if !ok || x.newer(&it) {
			continue
		}
		s := model.ObserverState{Cell: model.Cell{Table: x.info.Name, Row: x.row.Key, Column: of}, Observer: observer, Done: done}
		if err := layout.DecodeObserverState(&s, it.Value); err == nil && !done && !s.Since.After(x.repair.To.Time()) {
			continue
		}
		x.mut().Erase(layout.NotifyFamily, it.Column, tso.Timestamp(it.Timestamp/1000))
		x.sum.States++
	}
}
