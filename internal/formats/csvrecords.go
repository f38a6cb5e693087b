package formats

import (
	"bufio"
	"fmt"
	"io"
)

// records reads the records of CSV as RFC 4180 has them, lines ending in LF or CRLF. encoding/csv
// tells neither an empty field from one in quotes nor CRLF within quotes from LF, and has no limit.
//
// Whatever is wrong with quotes ends the reading: nobody can tell where the next record begins. So
// does a CR alone, which ends a line for some programs and is text for others.
type records struct {
	in     *bufio.Reader
	limit  int // of the bytes of a record
	lines  int // that have begun
	line   int // on which the record begins
	text   []byte
	fields []field
	count  int // of fields, of which only so many are kept as were asked for
}

// field is a field of a record, as a part of its text.
type field struct {
	from, to int
	quoted   bool
}

// The place of a byte in a field.
type place int

const (
	atBeginning place = iota
	inText
	inQuotes
	behindQuotes
)

func newRecords(r io.Reader) *records {
	in := bufio.NewReaderSize(r, 64<<10)
	if mark, _ := in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = in.Discard(len(mark))
	}
	return &records{in: in, limit: MaxLineBytes, lines: 1}
}

// next reads a record that is no empty line, and keeps so many fields. Errors: io.EOF;
// ErrInvalidArgument for what is no CSV, with its line; those of the reader.
func (r *records) next(keep int) error {
	for {
		switch err := r.read(keep); {
		case err != nil:
			return err
		case r.count > 1 || len(r.text) > 0 || r.fields[0].quoted:
			return nil
		}
	}
}

func (r *records) read(keep int) error {
	r.line, r.text, r.fields, r.count = r.lines, r.text[:0], r.fields[:0], 0
	at, from, begun, quoted := atBeginning, 0, r.lines, false
	for read := 0; ; read++ {
		c, err := r.in.ReadByte()
		if err == nil && c == '\r' && at != inQuotes {
			if after, _ := r.in.Peek(1); len(after) == 0 || after[0] == '\n' {
				continue
			}
			return fmt.Errorf("line %d: %w", r.lines, invalid("field %d has a carriage return, which neither stands in quotes nor ends the line", r.count+1))
		}
		switch {
		case err == io.EOF && read == 0: //nolint:errorlint // of a bufio.Reader
			return io.EOF
		case err == io.EOF && at == inQuotes: //nolint:errorlint // of a bufio.Reader
			return fmt.Errorf("line %d: %w", r.line, invalid("a field whose quotes begin on line %d is never closed", begun))
		case err != nil && err != io.EOF: //nolint:errorlint // of a bufio.Reader
			return err
		case err != nil, at != inQuotes && (c == ',' || c == '\n'):
			if r.count++; r.count <= keep {
				r.fields = append(r.fields, field{from, len(r.text), quoted})
			}
			if err != nil {
				return nil
			}
			if c == '\n' {
				r.lines++
				return nil
			}
			at, from, quoted = atBeginning, len(r.text), false
			continue
		case c == '"' && at == atBeginning:
			at, quoted, begun = inQuotes, true, r.lines
			continue
		case c == '"' && at == inQuotes:
			at = behindQuotes
			continue
		case c == '"' && at == behindQuotes:
			at = inQuotes
		case at == behindQuotes, c == '"':
			return fmt.Errorf("line %d: %w", r.lines, invalid("a quote in field %d neither begins nor ends it; "+
				`within quotes a quote is doubled (Spark does so with the option escape="\"")`, r.count+1))
		case at == atBeginning:
			at = inText
		case c == '\n':
			r.lines++
		}
		if r.count >= keep {
			continue
		}
		if r.text = append(r.text, c); len(r.text) > r.limit {
			return fmt.Errorf("line %d: %w", r.line, invalid("the record is longer than %d MiB; quotes begin on line %d", r.limit>>20, begun))
		}
	}
}
