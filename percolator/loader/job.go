package loader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/percolator"
)

// Job is what is loaded, and how. Source and Write are needed.
type Job[T any] struct {
	Source Source[T]
	Write  Write[T]

	// Committed, if set, is called after a transaction has committed, once for each item that Load
	// knows to be in the store. Calls come from several goroutines. (Of a transaction whose outcome
	// was unknown it is the repetition that is told.)
	Committed func(items []T)
	// Failed, if set, is called with an item that could not be loaded, one call at a time. The load
	// goes on without the item if it returns nil, and ends with the error otherwise. A load that is
	// resumed may report an item again. nil: the load ends.
	Failed func(Failure[T]) error
	// SourceFailed, if set, is called with an error that the source has yielded, from the goroutine
	// that calls Load. The load goes on behind it if it returns nil, and ends with the error
	// otherwise. nil: the load ends.
	SourceFailed func(error) error
}

// Source yields the items behind a position, in the same order each time, and ends when ctx does.
// It may yield errors between items; they do not count.
type Source[T any] func(ctx context.Context, from Position) iter.Seq2[Item[T], error]

// Item is one item of a source.
type Item[T any] struct {
	Value T
	// Bytes is what the item counts for under Config.MaxInFlightBytes and BytesPerTransaction, and in
	// Progress.
	Bytes int64
	// Token, if set, is where a source goes on that is to begin behind this item, such as an offset:
	// it becomes part of the position. At most MaxToken bytes.
	Token []byte
}

// MaxToken is how long a token may be, in bytes.
const MaxToken = 4 << 10

// Position is a point in a source between two items. The zero value is its beginning.
type Position struct {
	Items int64  // that lie before it
	Token []byte // of the last of them; nil if that has none
}

// Write buffers the writes of the items, one or more, in a transaction, which Load commits. The
// same items, or some of them, may be given to it again, also when they have been committed. It
// must not keep tx or items.
type Write[T any] func(ctx context.Context, tx *percolator.Txn, items []T) error

// Each is a Write that goes through the items one after the other. One that reads does better to
// read for all of them at once.
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

// Replay is a source of a sequence that can only begin at the beginning: what lies before the
// position is read and passed over. bytes may be nil: then items have no size.
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

// ErrTakenOver: another loader has begun under the same name, and goes on with the load.
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
