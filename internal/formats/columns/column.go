package columns

import (
	"bufio"
	"errors"
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
	group *group
	leaf  parquet.LeafColumn
	chunk *chunk
	typ   parquet.Type
	from  *source
	r     *bufio.Reader // of from
	left  int64         // values in pages to come

	dict       parquet.Dictionary
	buf        []byte
	held       int64 // bytes of the page
	inPage     int   // values left in it
	reps, defs hybrid
	list       parquet.Dictionary // its values, or all that they can be
	at         int32              // the next one in list
	places     *hybrid            // or where those are
	ahead      bool               // rep is that of the next value
	rep        int
}

// source is the bytes of a column.
type source struct {
	r    io.Reader
	left int64
	err  error // but io.EOF
}

func (s *source) Read(b []byte) (n int, err error) {
	n, err = s.r.Read(b)
	if s.left -= int64(n); err != nil && err != io.EOF { //nolint:errorlint // readers return it as it is
		s.err = err
	}
	return n, err
}

// Group begins to read a row group, and returns all of its columns.
func (f *File) Group(i int) (columns []*Column) {
	g := &group{}
	for j := range f.groups[i].Chunks {
		ch, leaf := &f.groups[i].Chunks[j].Meta.V, f.leaves[j]
		size := ch.Bytes
		if ch.Values == 0 { // writers leave out where it is, and some write a dictionary all the same
			size = 0
		}
		from := &source{r: io.NewSectionReader(f.r, ch.start(), size), left: size}
		columns = append(columns, &Column{group: g, leaf: leaf, chunk: ch, typ: typeOf(ch.Type, leaf), left: ch.Values, from: from, r: bufio.NewReader(from)})
	}
	return columns
}

// Next is the next value, and null if its definition level is below the column's highest one. It is
// there until the column is read again. io.EOF: there is none.
func (c *Column) Next() (v parquet.Value, err error) {
	if err = c.look(); err != nil {
		return v, err
	}
	c.ahead = false
	c.inPage--
	def, _ := c.defs.next() // which was checked
	if int(def) == c.leaf.MaxDefinitionLevel {
		v = c.value()
	}
	return v.Level(c.rep, int(def), c.leaf.ColumnIndex), nil
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
func (c *Column) look() error {
	if c.ahead {
		return nil
	}
	for c.inPage == 0 {
		if err := c.nextPage(); err == io.EOF { //nolint:errorlint // returned as it is
			return err
		} else if err != nil {
			return c.named(err)
		}
	}
	rep, _ := c.reps.next() // which was checked
	c.rep, c.ahead = int(rep), true
	return nil
}

var errHeld = errors.New("pages and dictionaries are too large to be in memory at once")

// hold counts memory before it is taken, until the next page.
func (c *Column) hold(n int64) error {
	if c.group.held+n > MaxHeldBytes {
		return fmt.Errorf("%w: at most %d bytes are supported; smaller row groups have smaller pages", errHeld, MaxHeldBytes)
	}
	c.group.held += n
	c.held += n
	return nil
}

// release ends the page. Its buffer stays, unless it is too small or far too large for the next.
func (c *Column) release(next int) error {
	const slack = 64 << 10
	if has := cap(c.buf); has < next || has > 4*next+slack {
		c.buf = nil
	}
	c.list = nil
	c.group.held -= c.held
	c.held = 0
	return c.hold(int64(max(next, cap(c.buf))))
}
