package observers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestWaitIdleElsewhere: a process without a worker waits for those that have one, and says what is
// left when its time is over.
func TestWaitIdleElsewhere(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	strand(e) // a lock on row z
	e.set(e.client, "a", "in", "1")
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	early, cancel := context.WithCancel(e.ctx)
	looks := 0
	err := observers.WaitIdle(early, e.client, func(left observers.Remaining) {
		if looks++; left != (observers.Remaining{Notifications: 1, Locks: 1}) {
			t.Errorf("%+v is left", left)
		}
		if looks == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "notifications 1, locks on observed cells 1") || looks != 3 {
		t.Fatalf("after %d looks without a worker: %v", looks, err)
	}
	e.Clock.Advance(time.Minute) // the lock is dead
	e.start(e.client, r, observers.Config{})
	if err := observers.WaitIdle(e.ctx, e.NewClient(), nil); err != nil {
		t.Fatal(err)
	}
	if n := j.count("o"); n != 2 {
		t.Errorf("idle after %d runs, want 2", n)
	}
}

// TestWaitIdleElsewhereSeesMovement: a look during which something committed proves nothing, even
// if it found nothing.
func TestWaitIdleElsewhereSeesMovement(t *testing.T) {
	t.Parallel()
	e := newEnv(t, table())
	var once atomic.Bool
	looking := e.NewClient(percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" && once.CompareAndSwap(false, true) {
			e.set(e.client, "a", "unobserved", "1")
		}
		return percolatortest.Pass
	}))
	looks := 0
	if err := observers.WaitIdle(e.ctx, looking, func(left observers.Remaining) {
		if looks++; left != (observers.Remaining{}) {
			t.Errorf("%+v is left", left)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if looks != 1 {
		t.Errorf("idle after %d looks that stored no, want 1: the table was written during the first", looks)
	}
	if err := looking.Close(); err != nil {
		t.Fatal(err)
	}
	if err := observers.WaitIdle(e.ctx, looking, nil); !errors.Is(err, percolator.ErrClosed) {
		t.Errorf("of a closed client: %v", err)
	}
}
