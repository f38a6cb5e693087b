package formats

import (
	"bytes"
	"errors"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/internal/model"
)

// readAll reads a Parquet file; what panics is an error of the test.
func readAll(t *testing.T, table *Table, b []byte) (rows []Row, err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	for r, err := range table.ReadParquet(bytes.NewReader(b), int64(len(b))) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// A file of another program whose keys are numbers is refused, as any column of another type is.
func TestParquetWithKeysThatAreNumbers(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     int64             `parquet:"row"`
		Columns map[string][]byte `parquet:"columns,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b)
	if _, err := w.Write([]line{{Row: 4242, Columns: map[string][]byte{"a": []byte("x")}}, {Row: 7, Columns: map[string][]byte{"a": []byte("y")}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, testTable(), b.Bytes())
	if !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("read as %q, %v", rows, err)
	}
}

// So is one whose undeclared columns are numbers.
func TestParquetWithColumnsThatAreNumbers(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     string           `parquet:"row"`
		Columns map[string]int64 `parquet:"columns,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b)
	if _, err := w.Write([]line{{Row: "r", Columns: map[string]int64{"a": 4242}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, testTable(), b.Bytes())
	if !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("read as %q, %v", rows, err)
	}
}

// An unsigned number above the greatest int64 is not stored as a negative one.
func TestParquetWithOtherIntegers(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     string            `parquet:"row"`
		Int     uint64            `parquet:"int"`
		Columns map[string][]byte `parquet:"columns,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b)
	if _, err := w.Write([]line{{Row: "r", Int: 1<<64 - 1}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, testTable(), b.Bytes())
	if !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("read as %q, %v", rows, err)
	}
}

// A declared column that is repeated loses no values silently.
func TestParquetWithARepeatedColumn(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     string            `parquet:"row"`
		Int     []int64           `parquet:"int"`
		Columns map[string][]byte `parquet:"columns,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b)
	if _, err := w.Write([]line{{Row: "r", Int: []int64{1, 2, 3}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, testTable(), b.Bytes())
	if !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("read as %q, %v", rows, err)
	}
}

// A decimal is not stored as the integer beneath it, 100 times what it says.
func TestParquetWithDecimals(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     string            `parquet:"row"`
		Int     int64             `parquet:"int,decimal(2:18)"`
		Columns map[string][]byte `parquet:"columns,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b)
	if _, err := w.Write([]line{{Row: "r", Int: 1234}}); err != nil { // 12.34
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, testTable(), b.Bytes())
	if !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("read as %q, %v", rows, err)
	}
}
