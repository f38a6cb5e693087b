package exportqueue

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// An entry is the cell
//
//	row     PARTITION.SLICE.PART   001.01a2b3c4d5.e6
//	column  START SEQ              01a2b3c4d5e6f70700000002
//	value   length of the key as a uvarint, key, value
//
// in hexadecimal digits: SLICE and PART are the first twelve digits of START, so that a row holds
// what began within 16 ms, and rows and columns are in the order of delivery. The notification of a
// slice is in the row PARTITION.SLICE. The position of a partition is the name of such a row, in a
// row of its own behind all partitions.
const (
	partBits    = 16
	startDigits = 16
	seqDigits   = 8

	positionRows = "position."
)

func entryRow(slice string, start tso.Timestamp) string {
	return fmt.Sprintf("%s.%02x", slice, uint64(start)>>partBits&0xff)
}

func positionCell(queue string, partition int) percolator.Cell {
	return percolator.Cell{Table: queue, Row: fmt.Sprintf("%s%03x", positionRows, partition), Column: "slice"}
}

func exportColumn(partition int) string { return fmt.Sprintf("export-%03x", partition) }

func entryColumn(start tso.Timestamp, seq int) string {
	return fmt.Sprintf("%0*x%0*x", startDigits, uint64(start), seqDigits, seq)
}

func encodeValue(key string, value []byte) []byte {
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen16+len(key)+len(value)), uint64(len(key)))
	return append(append(b, key...), value...)
}

// decode reads an entry; percolator.ErrCorrupt if the cell is none.
func decode(e percolator.Entry) (Entry, error) {
	column := e.Cell.Column
	if len(column) != startDigits+seqDigits {
		return Entry{}, corrupt(e.Cell, "the column is not a timestamp and a number")
	}
	start, err := strconv.ParseInt(column[:startDigits], 16, 64)
	if err != nil {
		return Entry{}, corrupt(e.Cell, "the column has no timestamp")
	}
	seq, err := strconv.ParseUint(column[startDigits:], 16, 31)
	if err != nil {
		return Entry{}, corrupt(e.Cell, "the column has no number")
	}
	n, used := binary.Uvarint(e.Value)
	if used <= 0 || n > uint64(len(e.Value)-used) {
		return Entry{}, corrupt(e.Cell, "the value has no key")
	}
	key, value := e.Value[used:used+int(n)], e.Value[used+int(n):]
	return Entry{Key: string(key), Value: value, StartTS: tso.Timestamp(start), Seq: int(seq), CommitTS: e.CommitTS}, nil
}

func corrupt(c percolator.Cell, what string) error {
	return fmt.Errorf("exportqueue: %s: %w: %s", c, percolator.ErrCorrupt, what)
}
