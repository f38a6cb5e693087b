package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// unexplained is a store whose conditions match what no read of it shows, the first refusals times.
type unexplained struct {
	store.Backend
	refusals, sent int
}

func (u *unexplained) CheckAndMutate(context.Context, string, string, store.Query, *store.Mutation, *store.Mutation) (bool, error) {
	if u.sent++; u.sent > 1000 {
		return false, errors.New("too many requests")
	}
	return u.sent <= u.refusals, nil
}

func (u *unexplained) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	return layout.Row{}, nil
}

// A prewrite that is refused for a reason which no read shows is sent again, but not without a
// pause.
func TestUnexplainedRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusals, most int
		succeeds       bool
	}{
		"a lock that is gone": {1, 2, true},
		"for good":            {1000, 30, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := &unexplained{refusals: c.refusals}
				cm := commitOf(t, u, 1, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of the bubble
				defer cancel()
				if err := cm.prewrite(ctx); (err == nil) != c.succeeds || u.sent > c.most {
					t.Errorf("%d requests, at most %d should be sent: %v", u.sent, c.most, err)
				}
			})
		})
	}
}
