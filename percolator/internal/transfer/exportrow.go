package transfer

import (
	"context"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// seenRow is a row as one request has seen it.
type seenRow struct {
	*reads.PageRow
	since   map[string]bool // acknowledgments that have records after the snapshot
	pending model.Pending
}

func (x *exporter) see(row layout.Row) seenRow {
	s := seenRow{since: map[string]bool{}, pending: layout.DecodePending(x.info.Name, row)}
	row.Items = slices.DeleteFunc(row.Items, func(it layout.Item) bool {
		newer := it.Family == layout.WriteFamily && it.Timestamp > layout.CellTime(x.ts)
		if newer {
			s.since[it.Column] = true
		}
		return newer
	})
	s.PageRow = &reads.PageRow{Key: row.Key, Seen: layout.DecodeRow(x.info.Name, row)}
	return s
}

// rows resolves each cell of a page as a read does, and finds out what observers have to do about
// it.
func (x *exporter) rows(ctx context.Context, page []layout.Row) ([]model.ExportedRow, error) {
	seen, rows := make([]seenRow, len(page)), make([]*reads.PageRow, len(page))
	for i, row := range page {
		seen[i] = x.see(row)
		rows[i] = seen[i].PageRow
	}
	if err := x.e.Reads.FinishRows(ctx, x.ts, x.info.Name, reads.Scanned{Rows: catalog.Union(x.keys), AllColumns: true}, rows); err != nil {
		return nil, err
	}
	out := make([]model.ExportedRow, len(page))
	for i, row := range seen {
		var err error
		if out[i], err = x.row(ctx, row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// row is what is exported of a row.
func (x *exporter) row(ctx context.Context, seen seenRow) (model.ExportedRow, error) {
	out := model.ExportedRow{Row: seen.Key}
	for _, res := range seen.Cells {
		cell, column := res.Cell, res.Cell.Column
		e := model.ExportedCell{Column: column, Kind: model.ExportedPut, Value: res.Value}
		if x.info.IsObserved[column] && res.Record.CommitTS != 0 {
			if err := x.observed(ctx, &e, cell, res.Record, seen); err != nil {
				return out, err
			}
		}
		if res.Value == nil {
			e.Kind = model.ExportedDelete
		}
		if res.Value != nil || e.Notified {
			out.Cells = append(out.Cells, e)
		}
	}
	return out, nil
}

// observed finds out which observers have acknowledged the newest change of a cell, and whether it
// was notified.
func (x *exporter) observed(ctx context.Context, e *model.ExportedCell, cell model.Cell, change layout.WriteRecord, seen seenRow) error {
	at := slices.IndexFunc(seen.pending.Notified, func(n model.Notification) bool { return n.Cell == cell })
	if at >= 0 {
		e.Notified = true
		e.Parked = seen.pending.Parked(seen.pending.Notified[at])
	}
	if v := seen.Seen[cell.Column]; slices.ContainsFunc(v.Locks, func(l layout.LockRecord) bool { return l.StartTS == change.StartTS }) {
		// Its notify cell came with the record, which was a lock when the row was read.
		e.Notified = true
	}
	for _, ack := range seen.acksOf(cell.Column) {
		v := seen.Seen[ack]
		busy := seen.since[ack] || (v != nil && len(v.Locks) > 0)
		last, err := x.e.Reads.FinishAck(ctx, x.ts, model.Cell{Table: cell.Table, Row: cell.Row, Column: ack}, v)
		if err != nil {
			return err
		}
		observer, _, _ := strings.Cut(ack[len(layout.AckPrefix):], "\x00")
		if last >= change.CommitTS {
			e.Acknowledged = append(e.Acknowledged, observer)
		} else if busy {
			e.Notified = true
		}
	}
	e.Parked = slices.DeleteFunc(e.Parked, func(s model.ObserverState) bool { return slices.Contains(e.Acknowledged, s.Observer) })
	return nil
}

// acksOf lists the acknowledgments of a column, in order.
func (s *seenRow) acksOf(column string) (acks []string) {
	add := func(ack string) {
		if of, _, ok := layout.Acknowledged(ack); ok && of == column && !slices.Contains(acks, ack) {
			acks = append(acks, ack)
		}
	}
	for ack := range s.Seen {
		add(ack)
	}
	for ack := range s.since {
		add(ack)
	}
	slices.Sort(acks)
	return acks
}

// weakRows finds the weak notifications of a page.
func (x *exporter) weakRows(_ context.Context, page []layout.Row) ([]model.ExportedRow, error) {
	return ordered.Map(page, x.weakRow), nil
}

// weakRow finds the weak notifications of a row.
func (x *exporter) weakRow(row layout.Row) model.ExportedRow {
	out := model.ExportedRow{Row: row.Key}
	pending := layout.DecodePending(x.info.Name, row)
	traced := map[string]bool{}
	for _, it := range row.Of(layout.WriteFamily) {
		traced[strings.TrimPrefix(it.Column, layout.TracePrefix)] = true
	}
	for _, column := range slices.Sorted(slices.Values(x.info.Weak)) {
		cell := model.Cell{Table: x.info.Name, Row: out.Row, Column: column}
		at := slices.IndexFunc(pending.Notified, func(n model.Notification) bool { return n.Cell == cell })
		if at < 0 && !traced[column] {
			continue
		}
		e := model.ExportedCell{Column: column, Kind: model.ExportedWeak, Notified: true}
		if at >= 0 {
			e.Parked = pending.Parked(pending.Notified[at])
		}
		out.Cells = append(out.Cells, e)
	}
	return out
}
