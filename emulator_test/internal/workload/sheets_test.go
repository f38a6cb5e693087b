package workload

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestSheetsStayWhole: sheets are whole that large transactions rewrite.
func TestSheetsStayWhole(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := begun(t)
		f.observe()
		f.rewriteSheets()
		f.judge()
	})
}

// TestTornSheets: cells of sheets that somebody changes alone are found.
func TestTornSheets(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := begun(t)
		f.observe()
		f.rewriteSheets()
		_, err := f.env.Client.Update(f.ctx, func(_ context.Context, tx *percolator.Txn) error {
			return errors.Join(tx.Set(sheetCell(1, 555, 0), []byte("torn")), tx.Delete(sheetCell(0, 1, 1)))
		})
		fixture.Must(t, err)
		f.judge("cells of sheet 1 differ", "sheet 0 has 359 cells, not 360", "thin air", "stale read", "G-single")
	})
}

func (f *finished) rewriteSheets() {
	f.Helper()
	for n := range sheetShapes {
		f.s.rewriteSheet(f.ctx, n)
	}
	if c := f.work.Counts()["sheet"]; c.Committed != int64(len(sheetShapes)) {
		f.Fatalf("%+v", c)
	}
}
