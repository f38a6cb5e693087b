package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// Sums are those of rows.
func (im *Import) Sums(rows ...model.ImportRow) model.ImportSums {
	sums := model.ImportSums{}
	for _, row := range rows {
		for _, c := range row.Cells {
			ttl := im.info.TTLOf(c.Column)
			sum := sums[ttl]
			addCell(&sum, row.Row, c.Column, c.Value)
			sums[ttl] = sum
		}
	}
	return sums
}

// expired reports whether values that live as long may have been collected since the import began.
func (im *Import) expired(ctx context.Context, ttl time.Duration) (bool, error) {
	if ttl == 0 {
		return false, nil
	}
	// Everything collected is below the safepoint that this finds.
	m, err := im.e.Meta.Refresh(ctx)
	return err == nil && im.cell.Commit.Add(ttl) <= m.Safepoint, err
}

// addCell counts one. The hash covers the lengths too: else two cells could share theirs.
func addCell(s *model.ImportSum, row, column string, value []byte) {
	var d xxhash.Digest
	var lengths [16]byte
	binary.BigEndian.PutUint64(lengths[:8], uint64(len(row)))
	binary.BigEndian.PutUint64(lengths[8:], uint64(len(column)))
	d.Reset()
	_, _ = d.Write(lengths[:])
	_, _ = d.WriteString(row)
	_, _ = d.WriteString(column)
	_, _ = d.Write(value)
	s.Cells, s.Bytes, s.Hash = s.Cells+1, s.Bytes+int64(len(value)), s.Hash+d.Sum64()
}

const maxImportFindings = 100

// Verify passes over the table and over its indexes. It compares the table with want, which was
// counted when the source was read, and the entries of each index with the table. What has expired
// since may be there or not. progress, if not nil, is called with the rows that were read so far,
// one call at a time.
//
// Errors: ErrUnique if rows share a value of a unique index, which the report lists; ErrCorrupt for
// any other difference; those of the store. The fence stays.
func (im *Import) Verify(ctx context.Context, want model.ImportSums, progress func(rows int64)) (model.ImportReport, error) {
	ctx = store.InBackground(ctx)
	v := &importPass{im: im, progress: progress, cells: model.ImportSums{}, expected: make([]model.ImportSum, len(im.info.Indexes))}
	err := im.eachPart(ctx, im.table, func(ctx context.Context, part model.Range) error {
		return v.pages(ctx, im.table, part, v.row)
	})
	if err != nil {
		return v.report, err
	}
	v.report.ImportSum = v.cells.Total()
	if err := v.compare(ctx, want); err != nil {
		return v.report, err
	}
	for i, ix := range im.info.Indexes {
		if im.skips(im.table, ix) {
			continue
		}
		if err := v.index(ctx, i, ix); err != nil {
			return v.report, err
		}
	}
	return v.report, nil
}

// compare compares what is in the table with the source.
func (v *importPass) compare(ctx context.Context, want model.ImportSums) error {
	both := maps.Clone(want)
	maps.Copy(both, v.cells)
	for ttl := range both {
		if v.cells[ttl] == want[ttl] {
			continue
		}
		expired, err := v.im.expired(ctx, ttl)
		if err != nil {
			return err
		}
		if expired {
			continue
		}
		found, source := v.cells.Total(), want.Total()
		why := "what was read twice differs"
		if found.Cells < source.Cells {
			why = "the source names some cells more than once, or rows were removed"
		}
		return fmt.Errorf("percolator: table %q: %w: it holds %d cells with %d bytes (checksum %016x), and the source %d with %d (%016x): %s; abort the import, and start over",
			v.im.table, model.ErrCorrupt, found.Cells, found.Bytes, found.Hash, source.Cells, source.Bytes, source.Hash, why)
	}
	return nil
}

// importPass is one Verify.
type importPass struct {
	im       *Import
	progress func(int64)

	mu       sync.Mutex
	report   model.ImportReport
	cells    model.ImportSums  // in the table
	expected []model.ImportSum // of the entries of each index, by what the table holds
}

// verifiedPages bound what one request of a pass reads.
var verifiedPages = store.PageSize{Rows: 4096, Bytes: 4 << 20}

// pages hands the cells that the import has written, of each row in a part of a table, to count,
// which is called by several goroutines. There are no other writers, so it does not look for locks:
// what a late prewrite has left is invisible, and stays so.
func (v *importPass) pages(ctx context.Context, table string, part model.Range, count func(rows []model.ImportRow) error) error {
	for page, err := range v.im.e.Store.NewPass(table, part, store.Exported(v.im.cell.Commit, false), verifiedPages).Pages(ctx) {
		if err != nil {
			return err
		}
		if err := v.im.inForce(ctx); err != nil {
			return err
		}
		rows := make([]model.ImportRow, 0, len(page.Rows))
		for _, row := range page.Rows {
			if out := v.im.written(row); len(out.Cells) > 0 {
				rows = append(rows, out)
			}
		}
		if err := count(rows); err != nil {
			return err
		}
	}
	return nil
}

// written is what the import has written to a row.
func (im *Import) written(row layout.Row) model.ImportRow {
	start, commit := layout.CellTime(im.cell.Start), layout.CellTime(im.cell.Commit)
	values := make(map[string][]byte, len(row.Items)/2)
	for _, it := range row.Of(layout.DataFamily) {
		if it.Timestamp == start {
			values[it.Column] = it.Value
		}
	}
	out := model.ImportRow{Row: row.Key}
	for _, it := range row.Of(layout.WriteFamily) {
		value, there := values[it.Column]
		if it.Timestamp != commit || !there {
			continue
		}
		if w, err := layout.DecodeWrite(it.Timestamp, it.Value); err == nil && w.Kind == layout.KindPut && w.StartTS == im.cell.Start {
			out.Cells = append(out.Cells, model.ImportCell{Column: it.Column, Value: value})
		}
	}
	return out
}

// row counts rows of the table, and the entries that they should have.
func (v *importPass) row(rows []model.ImportRow) error {
	sums := v.im.Sums(rows...)
	expected := make([]model.ImportSum, len(v.expected))
	for _, row := range rows {
		for _, c := range row.Cells {
			for i, ix := range v.im.info.Indexes {
				if ix.Column == c.Column {
					entry := catalog.IndexEntryCell(ix, v.im.table, string(c.Value), row.Row)
					addCell(&expected[i], entry.Row, entry.Column, []byte(row.Row))
				}
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Rows += int64(len(rows))
	v.cells.Add(sums)
	for i := range expected {
		v.expected[i].Add(expected[i])
	}
	if v.progress != nil {
		v.progress(v.report.Rows)
	}
	return nil
}

// index compares the entries of an index with the table.
func (v *importPass) index(ctx context.Context, i int, ix model.Index) error {
	name := catalog.IndexTable(v.im.table, ix)
	var found model.ImportSum
	err := v.im.eachPart(ctx, name, func(ctx context.Context, part model.Range) error {
		return v.pages(ctx, name, part, func(rows []model.ImportRow) error {
			var sum model.ImportSum
			for _, row := range rows {
				for _, c := range row.Cells {
					addCell(&sum, row.Row, c.Column, c.Value)
				}
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			found.Add(sum)
			return nil
		})
	})
	v.report.Entries += found.Cells
	if err != nil || found == v.expected[i] {
		return err
	}
	if expired, err := v.im.expired(ctx, v.im.info.TTLOf(ix.Column)); err != nil || expired {
		return err
	}
	if ix.Unique {
		if err := v.duplicates(ctx, ix); err != nil {
			return err
		}
	}
	return fmt.Errorf("percolator: table %q: %w: index %q holds %d entries (checksum %016x) for %d cells (%016x); abort the import, and start over",
		v.im.table, model.ErrCorrupt, ix.Name, found.Cells, found.Hash, v.expected[i].Cells, v.expected[i].Hash)
}

// errEnough ends a search.
var errEnough = errors.New("enough was found")

// duplicates looks for rows whose entry in a unique index is another row's.
func (v *importPass) duplicates(ctx context.Context, ix model.Index) error {
	name := catalog.IndexTable(v.im.table, ix)
	err := v.im.eachPart(ctx, v.im.table, func(ctx context.Context, part model.Range) error {
		return v.pages(ctx, v.im.table, part, func(rows []model.ImportRow) error {
			holders := map[string][]string{} // by the key of the entry
			var keys []string
			for _, row := range rows {
				for _, c := range row.Cells {
					if c.Column != ix.Column {
						continue
					}
					key := catalog.IndexEntryCell(ix, v.im.table, string(c.Value), row.Row).Row
					if holders[key] == nil {
						keys = append(keys, key)
					}
					holders[key] = append(holders[key], row.Row)
				}
			}
			for chunk := range store.KeyChunks(keys) {
				err := v.im.e.Store.ReadRows(ctx, name, store.Rows{Keys: chunk}, store.Exported(v.im.cell.Commit, false), 0, func(entry layout.Row) bool {
					for _, e := range v.im.written(entry).Cells {
						for _, row := range holders[entry.Key] {
							if row != string(e.Value) {
								v.found(model.ImportFinding{Index: ix.Name, Row: row, Other: string(e.Value)})
							}
						}
					}
					return true
				})
				if err != nil {
					return err
				}
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			if len(v.report.Findings) >= maxImportFindings {
				return errEnough
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Findings) == 0 {
		return nil
	}
	f := v.report.Findings[0]
	return fmt.Errorf("%w; the report lists %d such rows; abort the import, correct the source, and start over",
		&model.UniqueError{Cell: model.Cell{Table: v.im.table, Row: f.Row, Column: ix.Column}, Index: ix.Name, Holder: f.Other}, len(v.report.Findings))
}

func (v *importPass) found(f model.ImportFinding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Findings) < maxImportFindings {
		v.report.Findings = append(v.report.Findings, f)
	}
}
