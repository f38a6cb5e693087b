package record

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errBackend = errors.New("the answer was lost on purpose")

// holds is a backend that refuses swaps and holds a certain record.
type holds struct {
	Backend[int64]
	stored State[int64]
	err    error
}

func (h holds) Read(context.Context) (State[int64], error)             { return h.stored, h.err }
func (h holds) Swap(context.Context, State[int64], State[int64]) error { return errBackend }

// A store tells apart what can have become of a swap without an answer.
func TestSwapIsResolved(t *testing.T) {
	t.Parallel()
	old := State[int64]{Version: 1, Nonce: "a", Epoch: 1, Holder: "holder-1", Lease: time.Second, HighWater: 1000}
	next, other := old, old
	next.Version, next.Nonce = 2, "b"
	other.Version, other.Nonce = 2, "c"
	for name, c := range map[string]struct {
		backend holds
		want    error // nil: success
	}{
		"applied":        {backend: holds{stored: next}},
		"not applied":    {backend: holds{stored: old}, want: errBackend},
		"another record": {backend: holds{stored: other}, want: ErrFenced},
		"damaged":        {backend: holds{err: Corruptf("found rubbish")}, want: ErrCorrupt},
		"unreadable":     {backend: holds{err: errors.New("no route")}, want: errBackend},
	} {
		store := Store[int64]{Backend: c.backend, Name: "default"}
		err := store.CompareAndSwap(t.Context(), old, next)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
