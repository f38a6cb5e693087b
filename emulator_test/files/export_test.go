package files_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/export"
)

// Arrow reads what an export writes, long values too.
func TestArrowReadsExports(t *testing.T) {
	t.Parallel()
	lines, ctx := linesOf(200), fixture.Context(t)
	long := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	lines[7].Bytes, lines[7].Columns = long, map[string][]byte{"long": long}
	n := 0
	for _, name := range exported(t, lines, export.Options{PartBytes: 4 << 20}) {
		b, err := os.ReadFile(name)
		fixture.Must(t, err)
		for _, got := range arrowRows(ctx, t, b) {
			if want := fmt.Sprint(lines[n].Row, lines[n].Small, len(lines[n].Bytes), len(lines[n].Columns)); got != want {
				t.Errorf("row %d is %s, want %s", n, got, want)
			}
			n++
		}
	}
	if n != len(lines) {
		t.Errorf("%d rows of %d", n, len(lines))
	}
}

// arrowRows are the row, the small number, the bytes and the entries of the map.
func arrowRows(ctx context.Context, t testing.TB, b []byte) (rows []string) {
	t.Helper()
	f, err := file.NewParquetReader(bytes.NewReader(b))
	fixture.Must(t, err)
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	fixture.Must(t, err)
	table, err := r.ReadTable(ctx)
	fixture.Must(t, err)
	defer table.Release()
	batches := array.NewTableReader(table, 0)
	defer batches.Release()
	for batches.Next() {
		batch := batches.RecordBatch()
		column := func(name string) int { return batch.Schema().FieldIndices(name)[0] }
		keys, small := batch.Column(column("row")).(*array.Binary), batch.Column(column("small")).(*array.Int64)
		values, entries := batch.Column(column("bytes")).(*array.Binary), batch.Column(column("columns")).(*array.Map)
		for i := range int(batch.NumRows()) {
			from, to := entries.ValueOffsets(i)
			rows = append(rows, fmt.Sprint(string(keys.Value(i)), small.Value(i), len(values.Value(i)), to-from))
		}
	}
	fixture.Must(t, batches.Err())
	return rows
}
