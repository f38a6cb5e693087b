package percolator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// tracePrefix begins the columns under which the erasure of weak notifications leaves its traces. They are rollback markers, at a timestamp
// that was taken after the runs had committed; a marker changes nothing, and the collector removes it when it is at or below the mark.
const tracePrefix = reserved + "weak\x00"

// leaveTrace adds to the mutation that erases weak notifications of column a trace of that, if somebody may be exporting (I21). Holds that
// have expired count as long as they are stored, since one that is stored can be extended.
func (c *Client) leaveTrace(ctx context.Context, mut *bigtable.Mutation, column string) error {
	m, err := c.meta.known(ctx)
	if err != nil || len(m.holds) == 0 {
		return err
	}
	ts, err := c.next(ctx)
	if err != nil {
		return err
	}
	mut.DeleteTimestampRange(writeFamily, tracePrefix+column, 0, cellTime(ts)) // the newest one says all
	mut.Set(writeFamily, tracePrefix+column, cellTime(ts), encodeWrite(ts, kindRollback))
	return nil
}

// rowsFilter returns what a snapshot sees of all columns, the notify cells up to it, and of acknowledgments whether there is anything newer.
func (x *exporter) rowsFilter() bigtable.Filter {
	at := snapshotFilter(nil, x.ts, 1)
	if len(x.info.Observed) == 0 {
		return at
	}
	since := bigtable.ChainFilters(bigtable.ColumnRangeFilter(writeFamily, ackPrefix, upperBound(ackPrefix)), from(x.ts+1),
		bigtable.LatestNFilter(1), bigtable.StripValueFilter())
	return bigtable.InterleaveFilters(at, since)
}

// upperBound is the end of the range of everything that begins with prefix.
func upperBound(prefix string) string { return Prefix(prefix).End }

// seenRow is a row as one request has seen it.
type seenRow struct {
	versions rowVersions
	since    map[string]bool // acknowledgments that have records after the snapshot
	pending  Pending
}

func (x *exporter) see(row bigtable.Row) seenRow {
	s := seenRow{since: map[string]bool{}, pending: decodePending(x.info.Name, row)}
	row[writeFamily] = slices.DeleteFunc(row[writeFamily], func(it bigtable.ReadItem) bool {
		newer := it.Timestamp > cellTime(x.ts)
		if newer {
			s.since[strings.TrimPrefix(it.Column, writeFamily+":")] = true
		}
		return newer
	})
	s.versions = decodeRow(x.info.Name, row)
	return s
}

// row settles each cell of a row as a read does, and finds out what observers have to do about it.
func (x *exporter) row(ctx context.Context, row bigtable.Row) (ExportedRow, error) {
	key, seen := row.Key(), x.see(row)
	out := ExportedRow{Row: key}
	for _, column := range seen.versions.columns() {
		if strings.HasPrefix(column, reserved) {
			continue
		}
		cell := Cell{x.info.Name, key, column}
		res, err := x.c.settleRead(ctx, x.ts, cell, seen.versions[column], 1, true)
		if err != nil {
			return out, err
		}
		e := ExportedCell{Column: column, Kind: ExportedPut, Value: res.value}
		if x.info.observed[column] && res.record.commitTS != 0 {
			if err := x.observed(ctx, &e, cell, res.record, seen); err != nil {
				return out, err
			}
		}
		if res.value == nil {
			e.Kind = ExportedDelete
		}
		if res.value != nil || e.Notified {
			out.Cells = append(out.Cells, e)
		}
	}
	return out, nil
}

// observed finds out which observers have acknowledged the newest change of a cell, and whether it was notified.
func (x *exporter) observed(ctx context.Context, e *ExportedCell, cell Cell, change writeRecord, seen seenRow) error {
	at := slices.IndexFunc(seen.pending.Notified, func(n Notification) bool { return n.Cell == cell })
	if at >= 0 {
		e.Notified = true
		e.Parked = seen.pending.Parked(seen.pending.Notified[at])
	}
	if v := seen.versions[cell.Column]; slices.ContainsFunc(v.locks, func(l lockRecord) bool { return l.startTS == change.startTS }) {
		e.Notified = true // its notify cell came with the record, which was a lock when the row was read
	}
	for _, ack := range seen.acksOf(cell.Column) {
		v := seen.versions[ack]
		busy := seen.since[ack] || (v != nil && len(v.locks) > 0)
		last, err := x.c.settleAck(ctx, x.ts, Cell{cell.Table, cell.Row, ack}, v)
		if err != nil {
			return err
		}
		observer, _, _ := strings.Cut(ack[len(ackPrefix):], "\x00")
		if last >= change.commitTS {
			e.Acknowledged = append(e.Acknowledged, observer)
		} else if busy {
			e.Notified = true
		}
	}
	e.Parked = slices.DeleteFunc(e.Parked, func(s Standing) bool { return slices.Contains(e.Acknowledged, s.Observer) })
	return nil
}

// acksOf lists the acknowledgments of a column, in order.
func (s *seenRow) acksOf(column string) (acks []string) {
	add := func(ack string) {
		if of, ok := acknowledged(ack); ok && of == column && !slices.Contains(acks, ack) {
			acks = append(acks, ack)
		}
	}
	for ack := range s.versions {
		add(ack)
	}
	for ack := range s.since {
		add(ack)
	}
	slices.Sort(acks)
	return acks
}

// weakFilter returns the notify family up to the snapshot, and the traces after it.
func (x *exporter) weakFilter() bigtable.Filter {
	return bigtable.ChainFilters(bigtable.InterleaveFilters(
		bigtable.ChainFilters(bigtable.ColumnRangeFilter(notifyFamily, "", ""), upTo(x.ts)),
		bigtable.ChainFilters(bigtable.ColumnRangeFilter(writeFamily, tracePrefix, upperBound(tracePrefix)), from(x.ts+1)),
	), bigtable.LatestNFilter(1))
}

// weakRow finds the weak notifications of a row.
func (x *exporter) weakRow(_ context.Context, row bigtable.Row) (ExportedRow, error) {
	out := ExportedRow{Row: row.Key()}
	pending := decodePending(x.info.Name, row)
	traced := map[string]bool{}
	for _, it := range row[writeFamily] {
		traced[strings.TrimPrefix(it.Column, writeFamily+":"+tracePrefix)] = true
	}
	for _, column := range slices.Sorted(slices.Values(x.info.Weak)) {
		cell := Cell{x.info.Name, out.Row, column}
		at := slices.IndexFunc(pending.Notified, func(n Notification) bool { return n.Cell == cell })
		if at < 0 && !traced[column] {
			continue
		}
		e := ExportedCell{Column: column, Kind: ExportedWeak, Notified: true}
		if at >= 0 {
			e.Parked = pending.Parked(pending.Notified[at])
		}
		out.Cells = append(out.Cells, e)
	}
	return out, nil
}

// IncompleteIndexes lists the indexes, as TABLE.INDEX, that were not complete at ts: two rows may hold one value of a unique one.
func (c *Client) IncompleteIndexes(ctx context.Context, ts tso.Timestamp) (names []string, err error) {
	m, err := c.meta.refresh(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range c.Schema().Tables {
		for _, ix := range t.Indexes {
			if name := ix.table(t.Name); !m.indexes[name].complete(ts) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// EncodeSchema is the stored form of a schema: JSON, in a fixed order, without Splits. Equal schemas have equal encodings.
func EncodeSchema(s *Schema) []byte { return s.encode() }

// DecodeSchema is the reverse of EncodeSchema. It accepts only what CreateSchema would store.
func DecodeSchema(b []byte) (*Schema, error) {
	s, err := decodeSchema(b)
	if err != nil {
		return nil, fmt.Errorf("percolator: %w: a schema that cannot be decoded: %w", ErrCorrupt, err)
	}
	return s, nil
}
