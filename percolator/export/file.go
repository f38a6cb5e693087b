package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gopercolator/percolator/internal/formats"
)

// file writes the rows of neighbouring ranges, to one file after another.
type file struct {
	*run
	number     int // of the range
	begun, seq int // range of the last file's first row, and how many files have begun there
	part       Part
	raw        int64 // bytes of names and values
	written    int64 // of all files
	buf        bytes.Buffer
	lines      []byte
	parquet    *formats.ParquetWriter
}

func (f *file) add(ctx context.Context, row formats.Row) (err error) {
	if f.part.Rows == 0 {
		if f.begun != f.number {
			f.begun, f.seq = f.number, 0
		}
		f.part = Part{Name: fmt.Sprintf("part-%s-%05d-%05d.%s", f.id, f.number, f.seq, f.o.Format), First: []byte(row.Key)}
		f.seq++
		if f.o.Format == Parquet {
			f.parquet = f.table.NewParquetWriter(&f.buf)
		}
	}
	mistyped := 0
	switch {
	case f.o.Format == Parquet:
		mistyped, err = f.parquet.Write(row)
	case f.o.Format == CSV:
		f.lines, err = f.csv.Append(f.lines, row)
	case f.o.Key != "":
		f.lines, mistyped, err = f.table.AppendFlat(f.lines, f.o.Key, row)
	default:
		f.lines, mistyped = f.table.AppendJSON(f.lines, row)
	}
	if err != nil {
		return fmt.Errorf("export: encoding a row of %s: %w", f.o.Table, err)
	}
	f.part.Last = []byte(row.Key)
	f.part.Rows++
	f.part.Values += int64(len(row.Cells))
	f.part.Mistyped += int64(mistyped)
	size := int64(len(row.Key))
	for _, c := range row.Cells {
		size += int64(len(c.Column) + len(c.Value))
	}
	f.raw += size
	f.written += size
	if f.raw < f.o.PartBytes {
		return nil
	}
	return f.end(ctx)
}

// end stores what was added.
func (f *file) end(ctx context.Context) error {
	if f.part.Rows == 0 {
		return nil
	}
	data := f.lines
	if f.o.Format == Parquet {
		if err := f.parquet.Close(); err != nil {
			return fmt.Errorf("export: encoding rows of %s: %w", f.o.Table, err)
		}
		data = f.buf.Bytes()
	}
	if err := f.to.Put(ctx, f.part.Name, data); err != nil {
		return fmt.Errorf("export: writing %s: %w", f.part.Name, err)
	}
	sum := sha256.Sum256(data)
	f.part.Bytes, f.part.SHA256 = int64(len(data)), hex.EncodeToString(sum[:])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, f.part)
	f.total.Rows += f.part.Rows
	f.total.Values += f.part.Values
	f.total.Mistyped += f.part.Mistyped
	f.total.Bytes += f.part.Bytes
	if f.o.Progress != nil {
		f.o.Progress(f.total, len(f.done))
	}
	f.part, f.raw, f.lines = Part{}, 0, f.lines[:0]
	f.buf.Reset()
	return nil
}
