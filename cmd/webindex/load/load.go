// Package load brings crawls into the store, many pages at once. The next load resumes where an
// interrupted one was.
package load

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

const (
	// atOnce is how many pages a transaction stores: enough that they share its requests, few
	// enough that observers begin soon.
	atOnce = 128
	// maxInFlight bounds the bytes of the pages that are being loaded. It holds several of the
	// largest pages.
	maxInFlight = 8 * crawl.MaxPage
	// failureLimit is for how long the store may fail before a load is given up, to be resumed.
	failureLimit = time.Minute
)

// Counts is what became of an input. Every response in it is counted once, in one of the first
// five.
type Counts struct {
	// Changed pages were written to the store.
	Changed int64 `json:"changed"`
	// Unchanged pages were in the store already, byte for byte.
	Unchanged int64 `json:"unchanged"`
	// Earlier pages were loaded by an earlier run, which was interrupted: this one went on behind
	// them without a look.
	Earlier int64 `json:"earlier"`
	// Superseded responses were followed, in the same input, by a later one of the same URL.
	Superseded int64 `json:"superseded"`
	// Skipped pages were left out: too large, or without a URL that can be indexed.
	Skipped int64 `json:"skipped"`
	// Bad are places in the input that could not be read.
	Bad int64 `json:"badInputs"`
}

// Pages is the number of pages that the input brought.
func (c Counts) Pages() int64 { return c.Changed + c.Unchanged + c.Earlier }

// Loader loads inputs. Its methods may be called concurrently, except Load.
type Loader struct {
	Client *percolator.Client
	Log    *slog.Logger
	// Restart looks at every page, also at those that an interrupted load has brought.
	Restart bool

	mu     sync.Mutex
	counts Counts
	input  atomic.Pointer[crawl.Input]
}

// Counts returns the counts so far; of all inputs together, if Load was called for several.
func (l *Loader) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// add adds one to a number in counts.
func (l *Loader) add(n *int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

// Progress returns how many of the bytes of the current input have been read.
func (l *Loader) Progress() (read, total int64) {
	if in := l.input.Load(); in != nil {
		return in.Offset(), in.Total()
	}
	return 0, 0
}

// Load loads a crawl. What is wrong with the crawl is logged and counted, and loading goes on
// behind it; the error is for what is wrong with the store, or that ctx ended. Then the next load
// of the same pages, under whatever path, goes on where this one was; it reads the input from the
// beginning all the same, and counts what is wrong with it.
func (l *Loader) Load(ctx context.Context, src Source) error {
	survey, err := newSurvey(ctx, src)
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
	_, err = loader.Load(ctx, l.Client, loader.Config{
		Name: "webindex:" + survey.identity(), Restart: l.Restart, ItemsPerTransaction: atOnce, MaxInFlightBytes: maxInFlight, OutageTimeout: failureLimit, Logger: l.Log,
	}, loader.Job[*index.Page]{
		Source: func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[*index.Page], error] {
			return l.pages(ctx, in, survey, from.Items)
		},
		Write:        index.Load,
		Committed:    l.count,
		SourceFailed: func(err error) error { l.report(err); return nil },
		Failed: func(f loader.Failure[*index.Page]) error {
			return fmt.Errorf("load %s: %w", f.Item.URL, f.Err)
		},
	})
	return err
}

// pages yields the pages of the input that count, and the errors in it. The first ones have been
// loaded earlier.
func (l *Loader) pages(ctx context.Context, in *crawl.Input, s *survey, earlier int64) iter.Seq2[loader.Item[*index.Page], error] {
	return func(yield func(loader.Item[*index.Page], error) bool) {
		n := 0
		for r, err := range in.Responses(ctx) {
			if ctx.Err() != nil {
				return
			}
			var url string
			if err == nil {
				url, err = identity(r)
			}
			if err != nil {
				if !yield(loader.Item[*index.Page]{}, err) {
					return
				}
				continue
			}
			if n++; s.latest[keyOf(url)] != n {
				l.add(&l.counts.Superseded)
				continue
			}
			if earlier > 0 {
				earlier--
				l.add(&l.counts.Earlier)
				continue
			}
			p := index.NewPage(url, index.NewCapture(r))
			if !yield(loader.Item[*index.Page]{Value: p, Bytes: int64(p.Bytes())}, nil) {
				return
			}
		}
	}
}

// count counts pages that are in the store now.
func (l *Loader) count(pages []*index.Page) {
	for _, p := range pages {
		if p.Changed {
			l.add(&l.counts.Changed)
		} else {
			l.add(&l.counts.Unchanged)
		}
	}
}

// report counts and logs something that could not be loaded. The messages of crawl name the file
// and the offset.
func (l *Loader) report(err error) {
	var skipped *crawl.SkippedError
	if errors.As(err, &skipped) || errors.Is(err, page.ErrURL) {
		l.add(&l.counts.Skipped)
		l.Log.Warn("skipped a page", "reason", err)
		return
	}
	l.add(&l.counts.Bad)
	l.Log.Error("bad input", "reason", err)
}
