package data

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/percolator"
)

// Beyond these limits the check after the import still finds that rows are missing, but not which.
const (
	maxKeys     = 32 << 20 // rows that are searched for a key that stands twice, unless all are in order: 256 MiB
	maxRepeated = 100_000  // keys that stand twice
)

// once yields an error in the place of a row whose key an earlier one has. Two rows for one key
// would become one, and nothing says which value a cell gets. The first call reads the rows once or
// twice before it yields one. The end of the context ends everything.
func once(ctx context.Context, rows iter.Seq2[formats.Row, error], repeated *map[string]bool) iter.Seq2[formats.Row, error] {
	return func(yield func(formats.Row, error) bool) {
		if *repeated == nil {
			*repeated = repeatedKeys(ctx, rows)
		}
		first := map[string]int{}
		n := 0
		for row, err := range rows {
			n++
			if ctx.Err() != nil {
				yield(formats.Row{}, context.Cause(ctx))
				return
			}
			if err == nil && (*repeated)[row.Key] {
				if at := first[row.Key]; at > 0 {
					row, err = formats.Row{}, fmt.Errorf("%w: row %d of the file has the key %s, as row %d does", percolator.ErrInvalidArgument, n, cli.Shown(row.Key), at)
				} else {
					first[row.Key] = n
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// repeatedKeys are the keys of several rows.
func repeatedKeys(ctx context.Context, rows iter.Seq2[formats.Row, error]) map[string]bool {
	repeated, seed := map[string]bool{}, maphash.MakeSeed()
	var hashes []uint64
	last, ascending := "", true // strictly
	for row, err := range rows {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			continue
		}
		ascending = ascending && (len(hashes) == 0 || last < row.Key)
		last = row.Key
		if len(hashes) < maxKeys {
			hashes = append(hashes, maphash.String(seed, row.Key))
		} else if !ascending {
			break
		}
	}
	if ascending {
		return repeated
	}
	slices.Sort(hashes)
	several := map[uint64]bool{}
	for i, h := range hashes {
		if i > 0 && h == hashes[i-1] && len(several) < maxRepeated {
			several[h] = true
		}
	}
	if len(several) == 0 {
		return repeated
	}
	seen := map[string]bool{}
	for row, err := range rows {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || !several[maphash.String(seed, row.Key)] {
			continue
		}
		if key := strings.Clone(row.Key); seen[key] {
			repeated[key] = true
		} else {
			seen[key] = true
		}
	}
	return repeated
}
