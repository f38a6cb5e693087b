package adopt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// A comparison goes page by page: rows of the plain table, then the same range in a snapshot of
// now. Between the two a program may have written either, so what differs is looked at again, after
// a while, before it counts.
//
// To mend a row, a transaction reads it, then the plain row, and writes what differs. No write is
// lost that a program makes as docs/ADOPT.md asks: to the plain table within the function of an
// Update, then to the same cells by that transaction.
//
//	its transaction commits before the mending one begins   the mending one sees both
//	the two overlap                                         they write the same cell, so one
//	                                                        conflicts (I2) and runs again: the plain
//	                                                        row is read, or written, once more
//	it begins after the mending one has committed           its value is the last one in both
//
// Rejected: to take the newer of two versions by their timestamps. Those of the plain table are the
// clocks of its writers.

// Kind says how a cell differs.
type Kind string

// The kinds of differences.
const (
	Missing   Kind = "missing"   // the plain table has it, the Percolator table has not
	Different Kind = "different" // both have it, with other values
	Extra     Kind = "extra"     // the Percolator table has it, the plain table has not
	Invalid   Kind = "invalid"   // the plain table has it, and it cannot be stored
)

// Difference is a cell that differs.
type Difference struct {
	Cell percolator.Cell // Column is "" where a whole row is Invalid
	Kind Kind
	Err  error // of Invalid
}

// CompareOptions is how Compare works. The zero value only looks.
type CompareOptions struct {
	// Mend writes what the plain table holds to the Percolator table, wherever they differ.
	Mend bool
	// Start is the key of the row to begin with: CompareReport.Next of a comparison that was broken
	// off. "": the first one.
	Start string
	// Grace is how long a difference must last to count: longer than a program takes from one write
	// to the other. 0: 2 s.
	Grace time.Duration
	// Found, if set, is called with each difference: those that are left or, with Mend, that were
	// mended. It must not block for long.
	Found func(Difference)
	// Progress, if set, is called after every page.
	Progress func(CompareReport)
}

// CompareReport is what Compare has found.
type CompareReport struct {
	Rows    int64 // of the plain table, that were compared
	Cells   int64
	Differ  int64 // differences that have lasted, or, with Mend, that were mended
	Invalid int64 // of them, those that cannot be stored, and are left
	// Next is where a comparison that was broken off may go on: all rows below it were compared. "":
	// at the first row, or the comparison has come to its end.
	Next string
}

// Compare compares a plain table with a table of client, by the mapping by which it was imported;
// columns of the Percolator table that the mapping does not mean are left out. Both may be written
// meanwhile. With Mend it makes the Percolator table what the plain one is, by transactions that
// lose no write of a program which writes both as docs/ADOPT.md says.
//
// Memory: three pages of 1000 rows, of which the Percolator table's ends with 16 MiB of values.
// Errors: ErrInvalidArgument for the mapping, ErrSchemaMismatch for the table, admin.ErrImporting;
// those of the client and of Bigtable.
func Compare(ctx context.Context, client *percolator.Client, name string, plain *bigtable.Table, m *Mapping, opts CompareOptions) (CompareReport, error) {
	t, err := m.of(client, name)
	if err != nil {
		return CompareReport{}, err
	}
	opts.Grace = cmp.Or(opts.Grace, 2*time.Second)
	if opts.Found == nil {
		opts.Found = func(Difference) {}
	}
	if opts.Progress == nil {
		opts.Progress = func(CompareReport) {}
	}
	c := &comparison{table: t, client: client, plain: plain, opts: opts}
	c.report.Next = opts.Start
	for page := range ahead(ctx, &plainReader{table: t, plain: plain}, opts.Start) {
		if page.err != nil {
			return c.report, page.err
		}
		end := ""
		if page.more {
			end = page.next
		}
		if err := c.page(ctx, page.rows, end); err != nil {
			return c.report, err
		}
		opts.Progress(c.report)
	}
	return c.report, ctx.Err()
}

// comparison is one Compare.
type comparison struct {
	*table
	client *percolator.Client
	plain  *bigtable.Table
	opts   CompareOptions
	report CompareReport
}

// page compares the rows that the plain table has from Next up to end with those of the Percolator
// table, of which there may be any number.
func (c *comparison) page(ctx context.Context, rows []plainRow, end string) error {
	for {
		have, next, err := c.stored(ctx, percolator.Between(c.report.Next, end))
		if err != nil {
			return err
		}
		n := len(rows)
		if next != "" {
			n, _ = slices.BinarySearchFunc(rows, next, func(row plainRow, key string) int { return strings.Compare(row.Row, key) })
		}
		if err := c.compare(ctx, rows[:n], have); err != nil {
			return err
		}
		rows, c.report.Next = rows[n:], cmp.Or(next, end)
		if next == "" {
			return nil
		}
	}
}

// compare compares all rows of a range.
func (c *comparison) compare(ctx context.Context, rows []plainRow, have map[string]map[string][]byte) error {
	want := map[string]plainRow{}
	for _, row := range rows {
		want[row.Row] = row
		c.report.Rows++
		c.report.Cells += int64(len(row.Cells))
	}
	var suspect []string
	for key, row := range want {
		if row.err != nil || len(differences(row.ImportRow, have[key])) > 0 {
			suspect = append(suspect, key)
		}
	}
	for key := range have {
		if _, there := want[key]; !there {
			suspect = append(suspect, key)
		}
	}
	if len(suspect) == 0 {
		return nil
	}
	slices.Sort(suspect)
	if !c.opts.Mend {
		if err := retry.Sleep(ctx, c.opts.Grace); err != nil {
			return err
		}
	}
	for keys := range slices.Chunk(suspect, mendRows) {
		found, err := c.again(ctx, keys)
		if err != nil {
			return err
		}
		for _, d := range found {
			c.report.Differ++
			if d.Kind == Invalid {
				c.report.Invalid++
			}
			c.opts.Found(d)
		}
	}
	return nil
}

// mendRows is how many rows one transaction looks at.
const mendRows = 64

// pageBytes bounds the values of a page of the Percolator table, but for one row.
const pageBytes = 16 << 20

// stored is the mapped cells of the Percolator table's rows, a page of them; next is where the next
// page begins, "" if there is none.
func (c *comparison) stored(ctx context.Context, r percolator.Range) (rows map[string]map[string][]byte, next string, err error) {
	s, err := c.client.Snapshot(ctx)
	if err != nil {
		return nil, "", err
	}
	return c.read(s.Scan(ctx, c.name, r), pageRows, pageBytes)
}

// read reads as many rows and bytes of values at most, but for one row.
func (c *comparison) read(entries iter.Seq2[percolator.Entry, error], most, bytes int) (rows map[string]map[string][]byte, next string, err error) {
	rows = map[string]map[string][]byte{}
	for e, err := range entries {
		if err != nil {
			return nil, "", err
		}
		if !c.means(e.Cell.Column) {
			continue
		}
		if rows[e.Cell.Row] == nil {
			if len(rows) == most || bytes < 0 {
				return rows, e.Cell.Row, nil
			}
			rows[e.Cell.Row] = map[string][]byte{}
		}
		rows[e.Cell.Row][e.Cell.Column] = e.Value
		bytes -= len(e.Value)
	}
	return rows, "", nil
}

// differences of a plain row and the stored cells, in the order of their columns.
func differences(want model.ImportRow, have map[string][]byte) (list []Difference) {
	found := func(column string, k Kind) {
		list = append(list, Difference{Cell: percolator.Cell{Row: want.Row, Column: column}, Kind: k})
	}
	there := map[string]bool{}
	for _, cell := range want.Cells {
		there[cell.Column] = true
		switch value, ok := have[cell.Column]; {
		case !ok:
			found(cell.Column, Missing)
		case !bytes.Equal(value, cell.Value):
			found(cell.Column, Different)
		}
	}
	for column := range have {
		if !there[column] {
			found(column, Extra)
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Cell.Column, b.Cell.Column) })
	return list
}

// again looks at rows in a transaction, which mends them if that is wanted.
func (c *comparison) again(ctx context.Context, keys []string) (found []Difference, err error) {
	ranges := ordered.Map(keys, percolator.Row)
	_, err = c.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		found = nil
		have, _, err := c.read(tx.ScanWith(ctx, c.name, percolator.ScanOptions{Rows: ranges}), len(keys), math.MaxInt)
		if err != nil {
			return err
		}
		want, err := c.rows(ctx, keys) // after the snapshot: see above
		if err != nil {
			return err
		}
		for _, key := range keys {
			row := want[key]
			row.Row = key
			if row.err != nil {
				found = append(found, Difference{Cell: percolator.Cell{Table: c.name, Row: key}, Kind: Invalid, Err: row.err})
				continue
			}
			for _, d := range differences(row.ImportRow, have[key]) {
				d.Cell.Table = c.name
				if d.Err = c.mend(tx, row.ImportRow, d); d.Err != nil {
					d.Kind = Invalid
				}
				found = append(found, d)
			}
		}
		return nil
	})
	return found, err
}

// mend writes what the plain row says of a cell. An error is of the cell: it cannot be stored.
func (c *comparison) mend(tx *percolator.Txn, row model.ImportRow, d Difference) error {
	if !c.opts.Mend {
		return nil
	}
	if d.Kind == Extra {
		return tx.Delete(d.Cell)
	}
	at := slices.IndexFunc(row.Cells, func(cell model.ImportCell) bool { return cell.Column == d.Cell.Column })
	return tx.Set(d.Cell, row.Cells[at].Value)
}

// rows reads rows of the plain table as they are now.
func (c *comparison) rows(ctx context.Context, keys []string) (map[string]plainRow, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	out := map[string]plainRow{}
	err := c.plain.ReadRows(ctx, bigtable.RowList(keys), func(r bigtable.Row) bool {
		row, err := c.row(r)
		out[r.Key()] = plainRow{row, err}
		return true
	}, bigtable.RowFilter(c.filter(time.Time{})))
	if err != nil {
		return nil, fmt.Errorf("adopt: reading the plain table: %w", err)
	}
	return out, nil
}
