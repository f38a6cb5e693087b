// Package columns reads the columns of a Parquet file, value by value, in bounded memory. It holds
// the schema, and of each column one page and its dictionary, whatever a file claims: see the
// limits. It compares what it reads with the counts of the metadata and with checksums of pages.
//
// parquet-go decodes metadata, headers and values. Before it does, this package checks what it
// believes: counts, lengths and widths of numbers, for which it takes memory and reads behind the
// page. Runs of levels and of places in a dictionary are read here: a few bytes stand for any
// number of them, and a sparse table has many.
//
// Rejected: the readers of parquet-go's files. They decode LZ4_RAW into other values, take what a
// file claims, and end early or panic on damage. Its decoder of runs of booleans, which fills up
// each run to whole bytes. Its decoder of texts behind prefixes, which takes prefixes that are
// longer than the text before, and fixed lengths that are others.
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
	// MaxPageBytes bounds a page, before and after decompression, and what decoding adds to it: a row
	// of Bigtable has at most 256 MiB, and an export puts the values of its map into one page.
	MaxPageBytes = 320 << 20
	// MaxHeldBytes bounds the pages and dictionaries that are in memory at once.
	MaxHeldBytes = 1 << 30
)

// ErrDamaged: the file contradicts itself, or a checksum.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// recovered makes damage of what the library panics with.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = damaged("%v", p)
	}
}

// unexpected makes damage of an end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends too early")
	}
	return err
}

// nameOf is what errors call a column.
func nameOf(leaf parquet.LeafColumn) string {
	const most = 64
	name := strings.Join(leaf.Path, ".")
	return name[:min(len(name), most)]
}
