package workload

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
)

// sheet is many cells that a large transaction writes or deletes together: all have the same value,
// or none has one.
type sheet struct {
	rows, columns int
	tables        []string // over which the rows are spread
}

// sheetShapes have some hundred cells to some thousand. The second has more rows of one table than
// one request takes, and the third more cells than a batch of a watcher.
var sheetShapes = []sheet{
	{120, 3, []string{sheets, receipts, pings}},
	{560, 1, []string{sheets}},
	{90, 24, []string{sheets, receipts}},
}

// sheetRow sorts behind the rows that others have in these tables.
func sheetRow(n, row int) string { return fmt.Sprintf("sheet%d-%04d", n, row) }

func (sh sheet) table(row int) string { return sh.tables[row%len(sh.tables)] }

func sheetCell(n, row, column int) percolator.Cell {
	return cell(sheetShapes[n].table(row), sheetRow(n, row), fmt.Sprintf("s%02d", column))
}

// sheet rewrites a sheet, seldom, or looks at one.
func (s *Session) sheet(ctx context.Context) {
	switch n := s.Rand.IntN(len(sheetShapes)); s.Rand.IntN(8) {
	case 0:
		s.rewriteSheet(ctx, n)
	case 1:
		s.View(ctx, "view sheet", func(ctx context.Context, r Reader) error { return r.checkSheet(ctx, n) })
	default:
		s.View(ctx, "view sheet", func(ctx context.Context, r Reader) error {
			values, err := r.cells(ctx, s.cornerOf(n), s.cornerOf(n), s.cornerOf(n))
			if err == nil {
				r.checkSame(n, values...)
			}
			return err
		})
	}
}

// cornerOf is any cell of a sheet.
func (s *Session) cornerOf(n int) percolator.Cell {
	return sheetCell(n, s.Rand.IntN(sheetShapes[n].rows), s.Rand.IntN(sheetShapes[n].columns))
}

func (s *Session) rewriteSheet(ctx context.Context, n int) {
	s.transact(ctx, options{kind: "sheet"}, func(ctx context.Context, a *attempt) error {
		if _, err := a.get(ctx, s.cornerOf(n)); err != nil {
			return err
		}
		v, withdrawn := a.unique("sheet"), s.Rand.IntN(6) == 0
		for row := range sheetShapes[n].rows {
			for column := range sheetShapes[n].columns {
				c, err := sheetCell(n, row, column), error(nil)
				if withdrawn {
					err = a.delete(c)
				} else {
					err = a.set(c, v)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkSheet scans a sheet in all its tables.
func (r Reader) checkSheet(ctx context.Context, n int) error {
	var all []history.Entry
	for _, table := range sheetShapes[n].tables {
		es, err := r.scan(ctx, table, sheetRow(n, 0), sheetRow(n+1, 0))
		if err != nil {
			return err
		}
		all = append(all, es...)
	}
	if want := sheetShapes[n].rows * sheetShapes[n].columns; len(all) != 0 && len(all) != want {
		r.rec.Broken("sheet %d has %d cells, not %d", n, len(all), want)
	}
	values := make([][]byte, len(all))
	for i, e := range all {
		values[i] = e.Value
	}
	r.checkSame(n, values...)
	return nil
}

func (r Reader) checkSheets(ctx context.Context) error {
	for n := range sheetShapes {
		if err := r.checkSheet(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (r Reader) checkSame(n int, values ...[]byte) {
	for _, v := range values {
		if string(v) != string(values[0]) {
			r.rec.Broken("cells of sheet %d differ: %q and %q", n, values[0], v)
			return
		}
	}
}
