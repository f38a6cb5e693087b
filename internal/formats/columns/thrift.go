package columns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// maxThriftDepth bounds how structs lie in each other. Those of Parquet need 8.
const maxThriftDepth = 32

// decode reads a struct into v, and passes over what v does not have.
func decode(r *bufio.Reader, v any) error {
	b := &bounded{protocolReader: (&thrift.CompactProtocol{}).NewReader(r), open: []structs{{left: 1}}}
	d := thrift.NewDecoder(b)
	d.SetStrict(true)
	switch err := d.Decode(v); {
	case b.refused != nil:
		return b.refused
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return unexpected(err)
	case err != nil:
		return damaged("%w", err)
	}
	return nil
}

// protocolReader is a reader whose name hides none of its methods.
type protocolReader interface{ thrift.Reader }

// bounded refuses what would take memory that the input does not fill, or the stack: the library
// makes lists and texts as long as they claim to be, and calls itself for a struct in a struct.
type bounded struct {
	protocolReader
	open    []structs // from the outside
	chunks  int       // columns of row groups
	refused error
}

// structs are one that is open, and those of its list that follow.
type structs struct {
	left  int32
	field int16 // the last one of the open struct
}

func (b *bounded) refuse(err error) error {
	b.refused = err
	return err
}

func (b *bounded) begin(structs structs) error {
	if b.open = append(b.open, structs); len(b.open) > maxThriftDepth {
		return b.refuse(damaged("the metadata are nested too deeply"))
	}
	return nil
}

func (b *bounded) ReadField() (thrift.Field, error) {
	f, err := b.protocolReader.ReadField()
	if err != nil {
		return f, err
	}
	in := &b.open[len(b.open)-1]
	if in.field = f.ID + in.field; !f.Delta {
		in.field = f.ID
	}
	switch f.Type {
	case thrift.STOP:
		if in.left--; in.left == 0 {
			b.open = b.open[:len(b.open)-1]
		}
	case thrift.STRUCT:
		err = b.begin(structs{left: 1})
	case thrift.SET, thrift.MAP:
		err = b.refuse(damaged("the metadata have a set or a map, of which the format has none"))
	}
	return f, err
}

func (b *bounded) ReadList() (thrift.List, error) {
	l, err := b.protocolReader.ReadList()
	if err != nil {
		return l, err
	}
	most, what := math.MaxInt32, ""
	switch depth, field := len(b.open), b.open[len(b.open)-1].field; {
	case l.Type == thrift.LIST || l.Type == thrift.SET || l.Type == thrift.MAP:
		return l, b.refuse(damaged("the metadata are nested too deeply"))
	case depth == 1 && field == 2:
		most, what = MaxColumns, "columns"
	case depth == 1 && field == 4:
		most, what = MaxRowGroups, "row groups"
	case depth == 2 && b.open[0].field == 4 && field == 1:
		most, what = MaxChunks-b.chunks, "columns of row groups"
		b.chunks += int(l.Size)
	case l.Type == thrift.BINARY:
		most, what = MaxDepth, "groups around a column"
	case l.Type == thrift.I32:
		most, what = 1000, "encodings of a column"
	}
	if int(l.Size) > most {
		return l, b.refuse(fmt.Errorf("it has more than %d %s", most, what))
	}
	if l.Type == thrift.STRUCT && l.Size > 0 {
		err = b.begin(structs{left: l.Size})
	}
	return l, err
}

func (b *bounded) ReadBytes() ([]byte, error) {
	n, err := b.ReadLength()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(b.Reader(), int64(n)))
	if err == nil && len(text) < n {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

func (b *bounded) ReadString() (string, error) {
	text, err := b.ReadBytes()
	return string(text), err
}
