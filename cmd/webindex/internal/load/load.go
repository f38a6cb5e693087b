// Package load brings crawls into the store: each page in a transaction of its own, many of them at once.
package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/cmd/webindex/internal/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/internal/index"
	"github.com/gopercolator/percolator/cmd/webindex/internal/page"
)

const (
	// concurrency is how many pages are being loaded at once. A load is two round trips, so it mostly waits.
	concurrency = 32
	// maxInFlight bounds the bytes of these pages together. It holds several of the largest pages.
	maxInFlight = 8 * crawl.MaxPage
)

// Counts is what became of an input. Every response in it is counted once, in one of the first four.
type Counts struct {
	Changed    int64 // written to the store
	Unchanged  int64 // in the store already, byte for byte
	Superseded int64 // followed, in the same input, by a later response of the same URL
	Skipped    int64 // left out: too large, or without a URL that can be indexed
	Bad        int64 // places in the input that could not be read
}

// Pages is the number of pages that the input brought.
func (c Counts) Pages() int64 { return c.Changed + c.Unchanged }

// Loader loads inputs. Its methods may be called concurrently, except Load.
type Loader struct {
	Client *percolator.Client
	Log    *slog.Logger

	changed, unchanged, superseded, skipped, bad atomic.Int64
	input                                        atomic.Pointer[crawl.Input]
}

// Counts returns the counts so far; of all inputs together, if Load was called for several.
func (l *Loader) Counts() Counts {
	return Counts{
		Changed: l.changed.Load(), Unchanged: l.unchanged.Load(), Superseded: l.superseded.Load(),
		Skipped: l.skipped.Load(), Bad: l.bad.Load(),
	}
}

// Progress returns how many of the bytes of the current input have been read.
func (l *Loader) Progress() (read, total int64) {
	if in := l.input.Load(); in != nil {
		return in.Offset(), in.Total()
	}
	return 0, 0
}

// Load loads a crawl. What is wrong with the crawl is logged and counted, and loading goes on behind it; the error is for
// what is wrong with the store, or that ctx ended.
func (l *Loader) Load(ctx context.Context, src Source) error {
	latest, err := survey(ctx, src)
	if err != nil {
		return err
	}
	in, err := src.open()
	if err != nil {
		l.report(err)
		return nil
	}
	defer in.Close() //nolint:errcheck // it was only read
	l.input.Store(in)

	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	room := semaphore.NewWeighted(maxInFlight)
	n := 0
	for r, err := range in.Responses(groupCtx) {
		if err != nil {
			if groupCtx.Err() != nil {
				break
			}
			l.report(err)
			continue
		}
		url, err := identity(r)
		if err != nil {
			l.report(err)
			continue
		}
		n++
		if latest[keyOf(url)] != n {
			l.superseded.Add(1)
			continue
		}
		size := int64(len(r.Body))
		if room.Acquire(groupCtx, size) != nil {
			break // the cause is returned by Wait
		}
		group.Go(func() error {
			defer room.Release(size)
			return l.loadPage(groupCtx, url, r)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (l *Loader) loadPage(ctx context.Context, url string, r *crawl.Response) error {
	changed, err := index.Load(ctx, l.Client, url, index.NewCapture(r))
	switch {
	case err != nil:
		return fmt.Errorf("load %s: %w", url, err)
	case changed:
		l.changed.Add(1)
	default:
		l.unchanged.Add(1)
	}
	return nil
}

// report counts and logs something that could not be loaded. The messages of crawl name the file and the offset.
func (l *Loader) report(err error) {
	var skipped *crawl.SkippedError
	if errors.As(err, &skipped) || errors.Is(err, page.ErrURL) {
		l.skipped.Add(1)
		l.Log.Warn("skipped a page", "reason", err)
		return
	}
	l.bad.Add(1)
	l.Log.Error("bad input", "reason", err)
}
