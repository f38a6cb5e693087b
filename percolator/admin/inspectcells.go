package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// rawCells are cells of one family of one column, newest first.
type rawCells []layout.Item

// rawColumn is a column as it is stored, reserved ones included.
type rawColumn struct {
	name  string
	cells map[string]rawCells // by family

	more        bool            // older cells were cut off, in some family
	cutFamilies map[string]bool // in these
}

// readColumns reads a row for inspection: its columns by name, and in words what the limit on cells
// has left out.
func (a *Admin) readColumns(ctx context.Context, table, row string, o InspectOptions) (map[string]*rawColumn, string, error) {
	r, err := a.e.Store.ReadRow(ctx, table, row, store.Inspected(o.Columns, o.Versions+1, o.Cells+1))
	if err != nil {
		return nil, "", err
	}
	columns := map[string]*rawColumn{}
	for _, family := range layout.Families {
		for _, item := range r.Of(family) {
			name := item.Column
			col := columns[name]
			if col == nil {
				col = &rawColumn{name: name, cells: map[string]rawCells{}, cutFamilies: map[string]bool{}}
				columns[name] = col
			}
			col.cells[family] = append(col.cells[family], item)
		}
	}
	cut, whole := incomplete(r, columns, o)
	for name, col := range columns {
		if !whole && name >= cut {
			delete(columns, name)
			continue
		}
		col.limit(o.Versions)
	}
	if whole {
		return columns, "", nil
	}
	return columns, fmt.Sprintf("columns from %q on: a family of the row has more than %d cells", cut, o.Cells), nil
}

// incomplete finds the first column that was cut off by the limit on cells of a family: what comes
// after it in other families is not shown either, as a column without its locks would look like one
// that has none.
func incomplete(r layout.Row, columns map[string]*rawColumn, o InspectOptions) (cut string, whole bool) {
	whole = true
	for _, family := range layout.Families {
		items := r.Of(family)
		if len(items) <= o.Cells {
			continue
		}
		last := items[len(items)-1].Column
		if len(columns[last].cells[family]) > o.Versions {
			last += "\x00" // it has all that are shown of a column
		}
		if whole || last < cut {
			cut, whole = last, false
		}
	}
	return cut, whole
}

// limit drops what is more than n cells of a family.
func (col *rawColumn) limit(n int) {
	for family, cells := range col.cells {
		if len(cells) > n {
			col.cells[family], col.more, col.cutFamilies[family] = cells[:n], true, true
		}
	}
}

// decoded is what of a column's cells belongs to the protocol, and what does not.
type decoded struct {
	layout.Versions
	notify []tso.Timestamp
	bad    []UndecodableCell
}

// decode sorts out a column's cells. It never fails.
func (col *rawColumn) decode() decoded {
	var d decoded
	for _, family := range layout.Families {
		for _, item := range col.cells[family] {
			if err := d.add(family, item); err != nil {
				size := int64(len(item.Value))
				if family == layout.DataFamily {
					size = -1 // only that it is there was asked for
				}
				d.bad = append(d.bad, UndecodableCell{Family: family, Timestamp: int64(item.Timestamp), Size: size, Reason: err.Error()})
			}
		}
	}
	return d
}

func (d *decoded) add(family string, item layout.Item) error {
	ts, err := layout.FromCell(item.Timestamp)
	if err != nil {
		return err
	}
	switch family {
	case layout.DataFamily:
		d.Data = append(d.Data, layout.DataVersion{StartTS: ts})
	case layout.LockFamily:
		l, err := layout.DecodeLock(item.Timestamp, item.Value)
		if err != nil {
			return err
		}
		d.Locks = append(d.Locks, l)
	case layout.WriteFamily:
		w, err := layout.DecodeWrite(item.Timestamp, item.Value)
		if err != nil {
			return err
		}
		d.Writes = append(d.Writes, w)
	case layout.NotifyFamily:
		d.notify = append(d.notify, ts)
	}
	return nil
}

// hasData reports whether the data of a transaction is there; known: the cells that were read
// suffice to tell.
func (d *decoded) hasData(startTS tso.Timestamp, cut bool) (has, known bool) {
	if slices.ContainsFunc(d.Data, func(v layout.DataVersion) bool { return v.StartTS == startTS }) {
		return true, true
	}
	return false, !cut || len(d.Data) > 0 && startTS > d.Data[len(d.Data)-1].StartTS
}
