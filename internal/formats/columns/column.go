package columns

import (
	"bufio"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

// group is what the columns of a row group share.
type group struct {
	held    int64
	scratch []byte // for a page as it is in the file
	zstd    *zstd.Decoder
}

// Column reads the values of one column of a row group. Those of one row group are not safe for
// concurrent use.
type Column struct {
	group  *group
	leaf   parquet.LeafColumn
	chunk  chunk
	form   form
	header compact
	bytes  int64 // of all pages
	bodies int64 // bytes read, headers aside
	left   int64 // values in pages to come

	dict        *dictionary
	page        pageHeader
	levels, buf []byte
	rest        []byte // values of the page
	inPage      int64  // values left in it
	rows, nulls int64  // of the page, so far
	reps, defs  hybrid
	values      decoder // nil before the first value that is not null
	ahead       bool    // rep is that of the next value
	rep         int
}

// Group begins to read a row group, and returns all of its columns.
func (f *File) Group(i int) (columns []*Column) {
	g := &group{}
	for j, ch := range f.groups[i].chunks {
		c := &Column{group: g, leaf: f.leaves[j], chunk: ch, form: formOf(ch.typ, f.leaves[j].Node.Type()), left: ch.values, bytes: ch.bytes}
		c.header.r = bufio.NewReader(io.NewSectionReader(f.r, ch.start(), ch.bytes))
		columns = append(columns, c)
	}
	return columns
}

// Next is the next value. It is there until the column is read again. io.EOF: there is none.
func (c *Column) Next() (v Value, err error) {
	if err = c.look(); err != nil {
		return v, err
	}
	if v, err = c.value(); err != nil {
		return v, c.named(asDamage(err))
	}
	return v, nil
}

// More tells whether the next value is of the same row as the one before, which is no longer there.
func (c *Column) More() (bool, error) {
	if c.leaf.MaxRepetitionLevel == 0 {
		return false, nil
	}
	if err := c.look(); err != nil {
		if err == io.EOF { //nolint:errorlint // returned as it is
			err = nil
		}
		return false, err
	}
	return c.rep > 0, nil
}

// End tells whether all values were read.
func (c *Column) End() error {
	switch err := c.look(); {
	case err == io.EOF: //nolint:errorlint // returned as it is
		return nil
	case err != nil:
		return err
	}
	return c.named(damaged("it has more rows than its row group"))
}

func (c *Column) named(err error) error {
	return fmt.Errorf("column %q: %w", nameOf(c.leaf), err)
}

// look reads the repetition level of the next value.
func (c *Column) look() (err error) {
	if c.ahead {
		return nil
	}
	if c.inPage == 0 {
		if err := c.nextPage(); err == io.EOF { //nolint:errorlint // returned as it is
			return err
		} else if err != nil {
			return c.named(err)
		}
	}
	if c.rep, err = level(&c.reps, c.leaf.MaxRepetitionLevel); err != nil {
		return c.named(err)
	}
	c.ahead = true
	return nil
}

func level(h *hybrid, highest int) (int, error) {
	if highest == 0 {
		return 0, nil
	}
	n, err := h.next()
	if err == nil && n > uint32(highest) {
		err = damaged("a level is too high")
	}
	return int(n), err
}

func (c *Column) value() (v Value, err error) {
	v.Rep = c.rep
	if v.Rep == 0 {
		c.rows++
	}
	if v.Def, err = level(&c.defs, c.leaf.MaxDefinitionLevel); err != nil {
		return v, err
	}
	if v.Null = v.Def < c.leaf.MaxDefinitionLevel; v.Null {
		c.nulls++
	} else {
		if c.values == nil {
			if c.values, err = c.decoderOf(c.page.encoding, c.rest); err != nil {
				return v, err
			}
		}
		if err := c.values.next(&v); err != nil {
			return v, err
		}
	}
	c.ahead = false
	if c.inPage--; c.inPage == 0 {
		return v, c.endPage()
	}
	return v, nil
}

// hold counts memory before it is taken.
func (g *group) hold(n int64) error {
	if g.held+n > MaxHeldBytes {
		return fmt.Errorf("%w: at most %d bytes are supported; smaller row groups have smaller pages", errHeld, MaxHeldBytes)
	}
	g.held += n
	return nil
}

// reuse counts a buffer of a size, and takes the former one away if it is too small or far too
// large: whoever fills the buffer makes it, when that much is there.
func (g *group) reuse(b *[]byte, size int64) error {
	const slack = 64 << 10
	if has := int64(cap(*b)); has < size || has > 4*size+slack {
		g.held -= has
		*b = nil
		return g.hold(size)
	}
	return nil
}
