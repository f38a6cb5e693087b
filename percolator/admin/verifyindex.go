package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A verification reads a table and the index over it at one snapshot, each from beginning to end,
// and looks up the other side of whatever it finds: every cell must have its entry, and every entry
// its cell. As both sides are written by one transaction, any difference in one snapshot is damage,
// even beside writers.

// VerifyIndexOptions configures VerifyIndex. The zero value is useful.
type VerifyIndexOptions struct {
	// Timestamp is the snapshot that is compared, under the rules of AsOf. 0: now. Collection ends
	// a verification that takes longer than the retention (ErrSnapshotTooOld), unless a hold at
	// this timestamp prevents it (Admin.TakeHold).
	Timestamp tso.Timestamp
	// MaxFindings is how many findings the report describes; all are counted. 0: 100. At most
	// 10,000.
	MaxFindings int
	// Progress, if set, is called after every page with the report so far, without the findings. It
	// must not block.
	Progress func(IndexReport)
}

// IndexDamage is a way in which an index can be wrong.
type IndexDamage string

// What VerifyIndex finds.
const (
	IndexMissing   IndexDamage = "cell without entry"
	IndexStray     IndexDamage = "entry without cell"
	IndexStale     IndexDamage = "entry of another value than its cell has"
	IndexDuplicate IndexDamage = "two cells with one value in a unique index"
	IndexCorrupt   IndexDamage = "cell or entry that cannot be decoded"
)

// IndexFinding is one thing that is wrong. It never holds a value.
type IndexFinding struct {
	Damage IndexDamage
	Cell   percolator.Cell // the indexed cell; zero for an entry from which it cannot be learned
	Other  percolator.Cell // IndexDuplicate: the cell that has the entry
	// Entry tells entries apart that cannot be decoded, whose key would show a value: a hash of the
	// key, and its length in bytes.
	Entry string
}

// String describes the finding in words, without values.
func (f IndexFinding) String() string {
	switch {
	case f.Other != (model.Cell{}):
		return fmt.Sprintf("%s: %s and %s", f.Damage, f.Cell, f.Other)
	case f.Entry != "":
		return fmt.Sprintf("%s: entry %s", f.Damage, f.Entry)
	}
	return fmt.Sprintf("%s: %s", f.Damage, f.Cell)
}

// IndexReport is what a verification found.
type IndexReport struct {
	Snapshot tso.Timestamp `json:"snapshot"`
	// BackfillIndex has not ended: expect cells without entries.
	Building bool  `json:"building"`
	Cells    int64 `json:"cells"`   // indexed cells in the snapshot
	Entries  int64 `json:"entries"` // entries in the snapshot

	// How often each damage was found.
	Missing    int64 `json:"missing"`
	Stray      int64 `json:"stray"`
	Stale      int64 `json:"stale"`
	Duplicates int64 `json:"duplicates"`
	Corrupt    int64 `json:"corrupt"`

	Findings []IndexFinding `json:"findings"`
}

// Damaged is the number of all findings; 0: the index is right.
func (r IndexReport) Damaged() int64 {
	return r.Missing + r.Stray + r.Stale + r.Duplicates + r.Corrupt
}

// VerifyIndex compares an index with its table in one snapshot. It changes nothing, except that it
// resolves locks in the way, as any reader does. It reads table and index once in pages, and for
// each page the counterparts, up to 512 rows a request: about two rows read for each cell and each
// entry. Memory: one page and its counterparts, at most 4096 rows or about 4 MiB; the findings; and
// 16 MiB that are read ahead where few rows have the column.
//
// A duplicate in a unique index is found through the entry of the value: where that is missing too,
// both cells are IndexMissing. The index may still be building; its report then tells what
// BackfillIndex has to do, or which cells stand in its way.
//
// Errors: ErrSchemaMismatch if there is no such index, or it was dropped, closed or opened
// meanwhile; ErrSnapshotTooOld for a snapshot from before the index was complete, or that
// collection has reached; ErrInvalidArgument for the options; those of the store. The report then
// covers what had been read.
func (a *Admin) VerifyIndex(ctx context.Context, table, index string, opts VerifyIndexOptions) (IndexReport, error) {
	ctx = store.InBackground(ctx)
	opts.MaxFindings = cmp.Or(opts.MaxFindings, 100)
	if opts.Progress == nil {
		opts.Progress = func(IndexReport) {}
	}
	if opts.MaxFindings < 0 || opts.MaxFindings > 10_000 || opts.Timestamp < 0 {
		return IndexReport{}, fmt.Errorf("percolator: %w: VerifyIndexOptions: MaxFindings is at most 10,000, and nothing is negative", model.ErrInvalidArgument)
	}
	if err := retry.CheckContext(ctx); err != nil {
		return IndexReport{}, err
	}
	found, err := a.e.Meta.FindIndexNow(ctx, table, index)
	if err != nil {
		return IndexReport{}, err
	}
	st := found.State
	s, err := a.e.Reads.Snapshot(ctx, reads.ReadOptions{AsOf: opts.Timestamp, Set: opts.Timestamp != 0})
	if err != nil {
		return IndexReport{}, err
	}
	if !st.Building && !st.Complete(s.StartTimestamp()) {
		return IndexReport{}, reads.TooOldForIndex(table, index, s.StartTimestamp(), st)
	}
	v := &verification{e: a.e, ts: s.StartTimestamp(), table: table, ix: found.Index, of: found.Incarnation, opts: opts, report: IndexReport{Snapshot: s.StartTimestamp(), Building: st.Building}}
	err = v.pages(ctx, table, v.ix.Column, v.cells)
	if err == nil {
		err = v.pages(ctx, v.of.Table, catalog.IndexColumn, v.entries)
	}
	return v.report, err
}

// verification is one run.
type verification struct {
	e      *engine.Engine
	ts     tso.Timestamp
	table  string
	ix     model.Index
	of     meta.Incarnation // of the index; a drop of the table ends it, too
	opts   VerifyIndexOptions
	report IndexReport
}

// found notes a finding.
func (v *verification) found(f IndexFinding) {
	count := map[IndexDamage]*int64{
		IndexMissing: &v.report.Missing, IndexStray: &v.report.Stray, IndexStale: &v.report.Stale,
		IndexDuplicate: &v.report.Duplicates, IndexCorrupt: &v.report.Corrupt,
	}[f.Damage]
	*count++
	if len(v.report.Findings) < v.opts.MaxFindings {
		v.report.Findings = append(v.report.Findings, f)
	}
}

// corrupt notes a cell or an entry that cannot be decoded.
func (v *verification) corrupt(at model.Cell) {
	if at.Table == v.table {
		v.found(IndexFinding{Damage: IndexCorrupt, Cell: at})
		return
	}
	hash := sha256.Sum256([]byte(at.Row))
	v.found(IndexFinding{Damage: IndexCorrupt, Entry: fmt.Sprintf("%x (%d bytes)", hash[:8], len(at.Row))})
}

// pages hands the entries of one column of a table to check, a page at a time. What cannot be
// decoded is noted and left out.
func (v *verification) pages(ctx context.Context, table, column string, check func(context.Context, []model.Entry) error) error {
	filter := store.Newest([]string{column}, v.ts, 1)
	for page, err := range v.e.Store.NewPass(table, model.All(), filter, reads.ScanPages).Pages(ctx) {
		if err != nil {
			return err
		}
		var entries []model.Entry
		rows := reads.SeenIn(table, page)
		if err := v.e.Reads.FinishEach(ctx, v.ts, table, reads.Scanned{Rows: catalog.Union(model.All())}, rows); err != nil {
			return err
		}
		for _, row := range rows {
			for _, res := range row.Cells {
				if res.Err != nil {
					v.corrupt(res.Cell)
				} else if res.Value != nil {
					entries = append(entries, model.Entry{Cell: res.Cell, Value: res.Value})
				}
			}
		}
		if err := v.e.Meta.CheckReadOf(ctx, v.ts, v.of); err != nil {
			return err
		}
		if err := check(ctx, entries); err != nil {
			return err
		}
		progress := v.report
		progress.Findings = nil
		v.opts.Progress(progress)
	}
	return nil
}

// cells checks that each cell has its entry.
func (v *verification) cells(ctx context.Context, page []model.Entry) error {
	v.report.Cells += int64(len(page))
	var of []model.Entry
	var entries []model.Cell
	for _, e := range page {
		// The value is older than the index, and too long for it.
		if catalog.CheckIndexEntry(v.ix, e.Cell, e.Value) != nil {
			v.found(IndexFinding{Damage: IndexMissing, Cell: e.Cell})
			continue
		}
		of, entries = append(of, e), append(entries, catalog.IndexEntryCell(v.ix, v.table, string(e.Value), e.Cell.Row))
	}
	return v.lookUp(ctx, entries, func(i int, r reads.CellResult) error {
		if r.Value != nil && string(r.Value) == of[i].Cell.Row {
			return nil
		}
		f := IndexFinding{Damage: IndexMissing, Cell: of[i].Cell}
		if owner := (model.Cell{Table: v.table, Row: string(r.Value), Column: v.ix.Column}); r.Value != nil && v.ix.Unique {
			holds, err := v.e.Reads.HoldsValue(ctx, v.ts, owner, string(of[i].Value))
			switch {
			case err != nil && !errors.Is(err, model.ErrCorrupt):
				return err
			case err == nil && holds:
				f.Damage, f.Other = IndexDuplicate, owner
			}
		}
		v.found(f)
		return nil
	})
}

// entries checks that each entry has its cell.
func (v *verification) entries(ctx context.Context, page []model.Entry) error {
	v.report.Entries += int64(len(page))
	var cells []model.Cell
	var values []string
	for _, e := range page {
		cell, value, ok := catalog.DecodeIndexEntry(v.ix, v.table, e)
		if !ok {
			v.corrupt(e.Cell)
			continue
		}
		cells, values = append(cells, cell), append(values, value)
	}
	return v.lookUp(ctx, cells, func(i int, r reads.CellResult) error {
		switch {
		case r.Value == nil:
			v.found(IndexFinding{Damage: IndexStray, Cell: cells[i]})
		case string(r.Value) != values[i]:
			v.found(IndexFinding{Damage: IndexStale, Cell: cells[i]})
		}
		return nil
	})
}

// lookUp reads cells, as many rows at a time as one request may name. One that cannot be decoded is
// left out: the pass over its own table notes it.
func (v *verification) lookUp(ctx context.Context, cells []model.Cell, check func(i int, r reads.CellResult) error) error {
	for begin := 0; begin < len(cells); begin += store.RequestRows {
		part := cells[begin:min(begin+store.RequestRows, len(cells))]
		found, err := v.e.Reads.ReadCells(ctx, v.ts, part, len(part))
		if errors.Is(err, model.ErrCorrupt) {
			found, err = v.oneByOne(ctx, part)
		}
		if err == nil {
			err = v.e.Meta.CheckReadOf(ctx, v.ts, v.of)
		}
		if err != nil {
			return err
		}
		for i, r := range found {
			if r.Skipped {
				continue
			}
			if err := check(begin+i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneByOne reads cells among which one cannot be decoded; that is marked as skipped.
func (v *verification) oneByOne(ctx context.Context, cells []model.Cell) ([]reads.CellResult, error) {
	out := make([]reads.CellResult, len(cells))
	for i, c := range cells {
		found, err := v.e.Reads.ReadCells(ctx, v.ts, []model.Cell{c}, 1)
		switch {
		case errors.Is(err, model.ErrCorrupt):
			out[i] = reads.CellResult{Cell: c, Skipped: true}
		case err != nil:
			return nil, err
		default:
			out[i] = found[0]
		}
	}
	return out, nil
}
