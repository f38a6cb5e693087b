package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
)

// The rows of the line "progress".
const (
	progressPrefix = "progress/"
	largeRow       = 64 << 10 // bytes of a row
	largeRows      = 64       // of a request
)

// eachLarge has so many rows of a table mutated, in bulk.
func (p *probe) eachLarge(ctx context.Context, table, prefix string, n int64, mutation func() *store.Mutation) error {
	for at := int64(0); at < n; at += largeRows {
		var keys []string
		var muts []*store.Mutation
		for i := at; i < min(at+largeRows, n); i++ {
			keys, muts = append(keys, fmt.Sprintf("%s%08d", prefix, i)), append(muts, mutation())
		}
		errs, err := p.backend.MutateRows(ctx, table, keys, muts)
		if err = errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}

func progressCost(c *Config) Cost {
	rows := c.ProgressBytes / largeRow
	return Cost{Requests: int(rows/largeRows) + int(rows/largeRows)/10 + 20, Bytes: rows*(largeRow+200) + 10<<10}
}

// progress reads rows that the filter keeps back, until a deadline.
func (p *probe) progress(ctx context.Context) []health.Finding {
	if p.ProgressBytes < largeRow {
		return health.Unchecked("nothing was written for a read that takes longer than %v; --progress-bytes 536870912 would write 512 MiB in some 140 requests", p.ProgressWithin)
	}
	value := string(make([]byte, largeRow))
	put := func() *store.Mutation { return putting(layout.DataFamily, "c", value) }
	if err := p.eachLarge(ctx, p.table, progressPrefix, p.ProgressBytes/largeRow, put); err != nil {
		return stopped(err)
	}
	limited, cancel := context.WithTimeout(ctx, p.ProgressWithin)
	defer cancel()
	started := time.Now()
	var keys []string
	err := p.backend.ReadRows(limited, p.table, store.Prefix(progressPrefix), store.AllLocks(), 0, func(key string) { keys = append(keys, key) },
		func(layout.Row) bool { return true })
	took := time.Since(started).Round(time.Millisecond)
	switch {
	case err == nil:
		return health.Unchecked("a read of %d bytes that finds nothing ended after %v: more bytes (--progress-bytes), or a shorter deadline (--progress-within), let the deadline cut it",
			p.ProgressBytes, took)
	case limited.Err() == nil || ctx.Err() != nil:
		return stopped(err)
	case len(keys) == 0:
		return []health.Finding{failed("", "a read that was cut after %v has not shown how far it came (last_scanned_row_key): reads of large tables would begin again and again", took)}
	}
	if at := slices.IndexFunc(keys, func(key string) bool { return !catalog.InRange(model.Prefix(progressPrefix), key) }); at >= 0 {
		return []health.Finding{failed("", "a read of rows under %q that was cut after %v names %q as passed over", progressPrefix, took, keys[at])}
	}
	if !slices.IsSorted(keys) {
		return []health.Finding{failed("", "a read that was cut after %v names its progress in the order %q", took, keys)}
	}
	return health.Fine("a read that was cut after %v has shown its progress %d times, at last %q", took, len(keys), keys[len(keys)-1])
}
