package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// InspectRow shows a row as Figure 4 of the paper does: each column with its versions downwards and
// what is stored of each across, decoded, with the state of every lock resolved from its primary,
// and what a reader at opts.AsOf finds. It sends ReadRows only, and changes nothing: a lock that a
// reader would resolve stays. table may be that of an index.
//
// No stored bytes make it fail: it reports cells that the protocol does not know in their place. A
// row that does not exist is empty. Errors: ErrInvalidArgument for options beyond the limits, an
// AsOf in the oracle's future, an empty row key and percolator_meta, which transactions do
// not write; ErrSchemaMismatch for a table that is not in the schema; those of the store and
// the oracle.
func (a *Admin) InspectRow(ctx context.Context, table, row string, opts InspectOptions) (RowInspection, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return RowInspection{}, err
	}
	if err := a.mayInspect(ctx, model.Cell{Table: table, Row: row}); err != nil {
		return RowInspection{}, err
	}
	columns, truncated, err := a.readColumns(ctx, table, row, opts)
	if err != nil {
		return RowInspection{}, err
	}
	in := &inspection{e: a.e, opts: opts, columns: map[string]*inspectedColumn{}, row: RowInspection{Table: table, Row: row}}
	in.sort(columns)
	if in.judged, err = a.judge(ctx, in.locks()); err != nil {
		return RowInspection{}, err
	}
	if err := in.situate(ctx); err != nil {
		return RowInspection{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(in.columns)) {
		if err := in.show(ctx, in.columns[name]); err != nil {
			return RowInspection{}, err
		}
	}
	left, err := in.measure(ctx)
	if err != nil {
		return RowInspection{}, err
	}
	in.row.Truncated = strings.Join(slices.DeleteFunc([]string{truncated, left}, func(s string) bool { return s == "" }), "; ")
	return in.row, nil
}

func (a *Admin) mayInspect(ctx context.Context, at model.Cell) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if at.Table == model.MetaTable {
		return fmt.Errorf("percolator: %w: %s holds no rows of transactions", model.ErrInvalidArgument, model.MetaTable)
	}
	if err := catalog.ValidateRow(at); err != nil {
		return err
	}
	return a.e.Meta.RequireTable(ctx, at.Table)
}

// inspection is a running InspectRow.
type inspection struct {
	e       *engine.Engine
	opts    InspectOptions
	columns map[string]*inspectedColumn
	judged  judgement
	wanted  wantedValues
	row     RowInspection
}

// inspectedColumn is a column with what observers have left for it.
type inspectedColumn struct {
	name string
	more bool
	cut  map[string]bool // families that have more cells
	decoded
	acks   map[string]*inspectedAck // by observer
	states []model.ObserverState
}

// inspectedAck is what was read of an acknowledgment; cut: there are older records.
type inspectedAck struct {
	decoded
	cut bool
}

func (in *inspection) column(name string) *inspectedColumn {
	col := in.columns[name]
	if col == nil {
		col = &inspectedColumn{name: name, acks: map[string]*inspectedAck{}}
		in.columns[name] = col
	}
	return col
}

// sort puts reserved columns to those that they belong to. A reserved name that this version does
// not know is shown like a column.
func (in *inspection) sort(columns map[string]*rawColumn) {
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		raw := columns[name]
		of, observer, isAck := layout.Acknowledged(name)
		stateOf, _, _, isState := layout.ObserverStateColumn(name)
		switch d := raw.decode(); {
		case isAck && in.asked(of):
			in.column(of).acks[observer] = &inspectedAck{d, raw.cutFamilies[layout.WriteFamily]}
		case isState && in.asked(stateOf):
			in.column(stateOf).addState(in.row, name, raw, d)
		case !isAck && !isState && in.asked(name):
			col := in.column(name)
			col.add(d)
			col.more, col.cut = raw.more, raw.cutFamilies
		}
	}
}

func (in *inspection) asked(column string) bool {
	return len(in.opts.Columns) == 0 || slices.Contains(in.opts.Columns, column)
}

// add takes in the column's own cells, after those under reserved names, which come first.
func (col *inspectedColumn) add(d decoded) {
	bad := col.bad
	col.decoded = d
	col.bad = append(col.bad, bad...)
}

// addState takes in what is stored about an observer in the notify family, of which the newest cell
// counts.
func (col *inspectedColumn) addState(at RowInspection, name string, raw *rawColumn, d decoded) {
	col.bad = append(col.bad, d.bad...)
	cells := raw.cells[layout.NotifyFamily]
	if len(d.notify) == 0 || len(cells) == 0 {
		return
	}
	_, observer, done, _ := layout.ObserverStateColumn(name)
	s := model.ObserverState{Cell: model.Cell{Table: at.Table, Row: at.Row, Column: col.name}, Observer: observer, Through: d.notify[0], Done: done}
	if err := layout.DecodeObserverState(&s, cells[0].Value); err != nil {
		col.bad = append(col.bad, UndecodableCell{layout.NotifyFamily, int64(cells[0].Timestamp), int64(len(cells[0].Value)), err.Error()})
		return
	}
	col.states = append(col.states, s)
}

// locks are all that could be decoded, those on acknowledgments included.
func (in *inspection) locks() (all []layout.LockRecord) {
	for _, col := range in.columns {
		all = append(all, col.decoded.Locks...)
		for _, ack := range col.acks {
			all = append(all, ack.Locks...)
		}
	}
	return all
}

// situate fills in the instants that the rest refers to.
func (in *inspection) situate(ctx context.Context) error {
	m, err := in.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	in.row.Now, in.row.Safepoint, in.row.Watermark = in.judged.now, m.Safepoint, m.Watermark
	in.row.AsOf = cmp.Or(in.opts.AsOf, in.row.Now)
	if in.row.AsOf > in.row.Now {
		return fmt.Errorf("percolator: %w: a snapshot at %s, which lies in the oracle's future: it is at %s", model.ErrInvalidArgument, text.At(in.row.AsOf), text.At(in.row.Now))
	}
	return nil
}

// show adds a column to the result.
func (in *inspection) show(ctx context.Context, col *inspectedColumn) error {
	out := ColumnInspection{Column: col.name, More: col.more, States: col.states, Type: in.e.Meta.Catalog.Load().TypeOf(in.row.Table, col.name)}
	if info, ok := in.e.Meta.Catalog.Load().UserTable(in.row.Table); ok {
		out.Observed, out.Weak = info.IsObserved[col.name], info.IsWeak[col.name]
	}
	slices.SortFunc(out.States, func(a, b model.ObserverState) int { return cmp.Compare(a.Observer, b.Observer) })
	cell := model.Cell{Table: in.row.Table, Row: in.row.Row, Column: col.name}
	out.Versions = in.lines(cell, col)
	var newest layout.WriteRecord
	if len(col.acks) > 0 {
		var err error
		if newest, _, err = in.newestAt(ctx, col, in.row.Now); err != nil {
			return err
		}
	}
	for _, observer := range slices.Sorted(maps.Keys(col.acks)) {
		ack, err := in.ack(ctx, model.Cell{Table: cell.Table, Row: cell.Row, Column: layout.AckColumn(col.name, observer)}, observer, col.acks[observer])
		if err != nil {
			return err
		}
		ack.Due = newest.CommitTS > ack.RanAt
		out.Acks = append(out.Acks, ack)
	}
	at := len(in.row.Columns)
	in.row.Columns = append(in.row.Columns, out)
	view, err := in.view(ctx, col)
	in.row.Columns[at].Reader = view
	if err != nil || view.State != ReaderValue {
		return err
	}
	in.wanted.add(col.name, view.StartTS, func(value []byte) {
		r := &in.row.Columns[at].Reader
		r.Size, r.Value = in.sizeAndBeginning(value)
	})
	return nil
}

// lines are the versions of a column, newest first.
func (in *inspection) lines(cell model.Cell, col *inspectedColumn) []VersionInspection {
	at := map[tso.Timestamp]*VersionInspection{}
	line := func(ts tso.Timestamp) *VersionInspection {
		if at[ts] == nil {
			at[ts] = &VersionInspection{Timestamp: ts}
		}
		return at[ts]
	}
	commits := map[tso.Timestamp]tso.Timestamp{} // by start timestamp
	for _, w := range col.Writes {
		has, known := col.hasData(w.StartTS, col.cut[layout.DataFamily])
		missing := w.Kind == layout.KindPut && known && !has
		line(w.CommitTS).Write = &WriteInspection{Kind: kindName(w.Kind), StartTS: w.StartTS, DataMissing: missing}
		if w.Kind == layout.KindPut {
			commits[w.StartTS] = w.CommitTS
		}
	}
	for _, d := range col.Data {
		data := &DataInspection{Size: -1, CommitTS: commits[d.StartTS]}
		line(d.StartTS).Data = data
		in.wanted.add(col.name, d.StartTS, func(value []byte) { data.Size, data.Value = in.sizeAndBeginning(value) })
	}
	for _, l := range col.decoded.Locks {
		lock := in.judged.inspect(cell, l)
		line(l.StartTS).Lock = &lock
	}
	for _, ts := range col.notify {
		line(ts).Notify = true
	}
	for _, b := range col.bad {
		ts := tso.Timestamp(0)
		if b.Timestamp > 0 && b.Timestamp%1000 == 0 {
			ts = tso.Timestamp(b.Timestamp / 1000)
		}
		line(ts).Undecodable = append(line(ts).Undecodable, b)
	}
	out := make([]VersionInspection, 0, len(at))
	for _, ts := range slices.Backward(slices.Sorted(maps.Keys(at))) {
		out = append(out, *at[ts])
	}
	return out
}

// kindName is the kind of a record for people and tools.
func kindName(k layout.Kind) string {
	return map[layout.Kind]string{layout.KindPut: "put", layout.KindDelete: "delete", layout.KindLock: "lock", layout.KindRollback: "rollback"}[k]
}

// ack is what is known of an observer's runs.
func (in *inspection) ack(ctx context.Context, cell model.Cell, observer string, d *inspectedAck) (AckInspection, error) {
	out := AckInspection{Observer: observer, Undecodable: d.bad}
	if len(d.Locks) > 0 {
		lock := in.judged.inspect(cell, d.Locks[0])
		out.Lock = &lock
	}
	// A deletion says that the observer was forgotten after it ran.
	ran := func(k layout.Kind) bool { return k == layout.KindLock || k == layout.KindDelete }
	w, _, err := in.newestOf(ctx, cell.Column, &d.decoded, d.cut, in.row.Now, ran)
	if w.Kind == layout.KindLock {
		out.RanAt, out.CommittedAt = w.StartTS, w.CommitTS
	}
	return out, err
}

// sizeAndBeginning is what of a value is shown; the beginning is a copy, so that the rest can be
// freed.
func (in *inspection) sizeAndBeginning(value []byte) (int64, []byte) {
	if !in.opts.Values {
		return int64(len(value)), nil
	}
	return int64(len(value)), append([]byte{}, value[:min(len(value), in.opts.ValueBytes)]...)
}

// measure reads the values that are shown. That this fails must not hide what was found before.
func (in *inspection) measure(ctx context.Context) (left string, err error) {
	n, err := readValues(ctx, in.e, in.row.Table, in.row.Row, in.wanted, in.opts.Bytes)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", retry.WithContext(ctx, err)
	case err != nil:
		return fmt.Sprintf("the sizes of %d values: %v", n, err), nil
	case n > 0:
		return unreadValues(n, in.opts.Bytes), nil
	}
	return "", nil
}
