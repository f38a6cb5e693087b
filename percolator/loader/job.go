package loader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/percolator"
)

// Job says what to load, and how. Source and Write are required.
type Job[T any] struct {
	Source Source[T]
	Write  Write[T]

	// Committed, if set, is called after each transaction, once for each item that Load knows to be
	// in the store, from several goroutines. When the outcome of a commit is unknown, Load repeats
	// it and calls Committed for the repetition.
	Committed func(items []T)
	// Failed, if set, is called with an item that could not be loaded, one call at a time. If it
	// returns nil the load goes on without the item; otherwise it ends with the error. A resumed
	// load may report an item again. nil: the load ends.
	Failed func(Failure[T]) error
	// SourceFailed, if set, is called with each error that the source yields, from the goroutine
	// that calls Load. If it returns nil the load goes on; otherwise it ends with the error. nil:
	// the load ends.
	SourceFailed func(error) error
}

// Source yields the items behind a position, in the same order each time, and ends when ctx does.
// It may yield errors between items; they do not count as items.
type Source[T any] func(ctx context.Context, from Position) iter.Seq2[Item[T], error]

// Item is one item of a source.
type Item[T any] struct {
	Value T
	// Bytes is what the item counts for under Config.MaxInFlightBytes and BytesPerTransaction, and
	// in Progress.
	Bytes int64
	// Token, if set, tells the source where to go on behind this item, such as an offset. It
	// becomes part of the position. At most MaxToken bytes.
	Token []byte
}

// MaxToken is how long a token may be, in bytes. Beyond it the load ends with ErrInvalidArgument.
const MaxToken = 4 << 10

// Position is a point in a source between two items. The zero value is its beginning.
type Position struct {
	Items int64  // that lie before it
	Token []byte // of the last of them; nil if that has none
}

// Write buffers the writes of one or more items in a transaction, which Load commits. Load may give
// it the same items again, also committed ones. Write must not keep tx or items. Several goroutines
// call it at once.
type Write[T any] func(ctx context.Context, tx *percolator.Txn, items []T) error

// Each is a Write that handles the items one after the other. A Write that reads is faster if it
// reads for all of them at once.
func Each[T any](write func(ctx context.Context, tx *percolator.Txn, item T) error) Write[T] {
	return func(ctx context.Context, tx *percolator.Txn, items []T) error {
		for _, item := range items {
			if err := write(ctx, tx, item); err != nil {
				return err
			}
		}
		return nil
	}
}

// Replay is a Source for a sequence that can only begin at the beginning: it skips what lies before
// the position. bytes may be nil: then items have no size.
func Replay[T any](sequence func(ctx context.Context) iter.Seq2[T, error], bytes func(T) int64) Source[T] {
	return func(ctx context.Context, from Position) iter.Seq2[Item[T], error] {
		return func(yield func(Item[T], error) bool) {
			passed := int64(0)
			for v, err := range sequence(ctx) {
				item := Item[T]{Value: v}
				if err == nil {
					if passed++; passed <= from.Items {
						continue
					}
					if bytes != nil {
						item.Bytes = bytes(v)
					}
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
}

// Failure is an item that could not be loaded.
type Failure[T any] struct {
	Index    int64 // of the item in the source; the first one is 0
	Item     T
	Attempts int // that it was tried alone
	Err      error
}

// ErrTakenOver: another loader has started under the same name, and continues the load.
var ErrTakenOver = errors.New("another loader has taken over")

// ItemError is the error of a load that ended because of an item.
type ItemError struct {
	Index int64 // of the item in the source; the first one is 0
	Err   error
}

// Error names the item by its number.
func (e *ItemError) Error() string { return fmt.Sprintf("loader: item %d: %v", e.Index, e.Err) }

// Unwrap is what the transaction failed with.
func (e *ItemError) Unwrap() error { return e.Err }
