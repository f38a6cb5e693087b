// Package columns reads the columns of a Parquet file, value by value, in bounded memory. It holds
// the schema, and of each column one page and its dictionary, whatever a file claims: see the
// limits. It compares what it reads with the counts of the metadata and with checksums of pages.
package columns

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Limits of a file.
const (
	MaxFooterBytes = 128 << 20
	MaxColumns     = 10_000 // with the groups around them
	MaxDepth       = 16
	MaxRowGroups   = 32_767
	MaxChunks      = 500_000 // columns of all row groups
	// MaxPageBytes bounds a page, before and after decompression: a row of Bigtable has at most 256
	// MiB, and an export puts the values of its map into one page.
	MaxPageBytes = 320 << 20
	// MaxHeldBytes bounds the pages and dictionaries that are in memory at once.
	MaxHeldBytes = 1 << 30
)

// ErrDamaged: the file contradicts itself, or a checksum.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// asDamage makes damage of an end that comes too early.
func asDamage(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends too early")
	}
	return err
}

// Value is a value of a column, or a null: then Def is below the column's highest definition level.
type Value struct {
	Rep, Def int
	Null     bool
	N        uint64 // INT32 (with its sign), INT64, BOOLEAN, and the bits of FLOAT and DOUBLE
	Bytes    []byte // BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY, INT96; until the column is read again
}

// nameOf is what errors call a column.
func nameOf(leaf parquet.LeafColumn) string {
	const most = 64
	name := strings.Join(leaf.Path, ".")
	return name[:min(len(name), most)]
}
