package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/percolator/model"
)

// parquetRows is how many rows a reader decodes at once.
const parquetRows = 64

// ReadParquet reads a file that has the columns row and columns; declared columns that it has not
// are empty. ErrInvalidArgument: it is no such file, its columns do not fit, or the table does not
// declare one of them. Errors between rows: ErrInvalidArgument for one that cannot be read, without
// anything that was stored; those of r and of a damaged file, after which nothing follows.
func (t *Table) ReadParquet(r io.ReaderAt, size int64) (rows iter.Seq2[Row, error], err error) {
	var f *parquet.File
	var at leaves
	if !footerFits(r, size) {
		return nil, fmt.Errorf("%w: not a Parquet file", model.ErrInvalidArgument)
	}
	err = guard(func() (err error) {
		f, err = parquet.OpenFile(r, size)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: not a Parquet file", model.ErrInvalidArgument)
	}
	err = guard(func() (err error) {
		at, err = t.leaves(f.Schema())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: a Parquet file whose columns do not fit: %w", model.ErrInvalidArgument, err)
	}
	return func(yield func(Row, error) bool) {
		for _, group := range f.RowGroups() {
			if !t.readGroup(group, at, yield) {
				return
			}
		}
	}, nil
}

// footerFits tells whether a file can have the footer that its last bytes declare. The library
// allocates that much before it reads: up to 4 GiB, for a file of a few damaged bytes.
func footerFits(r io.ReaderAt, size int64) bool {
	const magic = 4
	var end [4 + magic]byte
	if size < magic+int64(len(end)) {
		return false
	}
	if n, err := r.ReadAt(end[:], size-int64(len(end))); n < len(end) && err != nil {
		return true // OpenFile meets the error again, and reports it
	}
	return int64(binary.LittleEndian.Uint32(end[:])) <= size-magic-int64(len(end))
}

// guard makes errors of panics: the library has them for some damaged files.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	return f()
}

func (t *Table) readGroup(group parquet.RowGroup, at leaves, yield func(Row, error) bool) (more bool) {
	var rows parquet.Rows
	err := guard(func() error { rows = group.Rows(); return nil })
	if err != nil {
		yield(Row{}, fmt.Errorf("reading a Parquet file: %w", err))
		return false
	}
	defer func() { _ = guard(rows.Close) }() // only read from
	buf := make([]parquet.Row, parquetRows)
	for {
		n := 0
		err := guard(func() (err error) {
			if n, err = rows.ReadRows(buf); n == 0 && err == nil {
				err = io.ErrNoProgress
			}
			return err
		})
		for _, values := range buf[:n] {
			var row Row
			err := guard(func() (err error) {
				row, err = t.parseParquet(values, at)
				return err
			})
			if !yield(row, err) || err != nil && !errors.Is(err, model.ErrInvalidArgument) {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			yield(Row{}, fmt.Errorf("reading a Parquet file: %w", err))
			return false
		}
	}
}

func (t *Table) parseParquet(values parquet.Row, at leaves) (row Row, err error) {
	own := map[int]parquet.Value{}
	var names, mapped []parquet.Value
	for _, v := range values {
		switch i := v.Column(); {
		case i == at.row:
			row.Key = string(v.ByteArray())
		case i == at.key:
			if v.DefinitionLevel() == at.keyLevel {
				names = append(names, v)
			}
		case i == at.value:
			if v.DefinitionLevel() == at.valueLevel {
				mapped = append(mapped, v)
			}
		case !v.IsNull():
			own[i] = v
		}
	}
	for _, c := range at.types {
		v, set := own[c.leaf]
		if !set {
			continue
		}
		stored, err := c.of.Encode(goOf(c.of, v))
		if err != nil {
			return Row{}, fmt.Errorf("column %q: %w: a value is %w", c.name, model.ErrInvalidArgument, err)
		}
		row.Cells = append(row.Cells, Cell{c.name, stored})
	}
	if len(names) != len(mapped) {
		return Row{}, fmt.Errorf("%w: a column without a value", model.ErrInvalidArgument)
	}
	for i := range names {
		name, err := ParseName(string(names[i].ByteArray()))
		if err != nil {
			return Row{}, err
		}
		row.Cells = append(row.Cells, Cell{name, slices.Clone(mapped[i].ByteArray())})
	}
	return row, nil
}
