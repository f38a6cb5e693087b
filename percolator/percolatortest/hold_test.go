package percolatortest

import (
	"context"
	"fmt"
	"testing"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
)

func TestHoldUntilRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(always(h))
	ctx := testContext(t)
	var eg errgroup.Group
	eg.Go(func() error { return b.checkAndSet(ctx, "r", "v") })
	if rs := h.Wait(t, 1); rs[0].Row != "r" || rs[0].Method != CheckAndMutateRow {
		t.Errorf("held %v", rs)
	}
	b.wantStored(t, "r", "")
	h.Release()
	b.wantStored(t, "r", "v")
	if err := eg.Wait(); err != nil {
		t.Errorf("the held request: %v", err)
	}
	wantCode(t, b.checkAndSet(ctx, "s", "v"), codes.OK) // it holds nothing any more
	b.wantStored(t, "s", "v")
}

func TestHeldRequestsAreReleasedInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(always(h))
	ctx := testContext(t)
	var eg errgroup.Group
	for i := range 5 {
		eg.Go(func() error { return b.checkAndSet(ctx, "r", fmt.Sprint(i)) })
		h.Wait(t, i+1)
	}
	h.Release()
	b.wantStored(t, "r", "4")
	if err := eg.Wait(); err != nil {
		t.Error(err)
	}
}

func TestHeldRequestIsDeliveredAfterItsCallerLeft(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(ctx context.Context, b *bench) error{
		CheckAndMutateRow: func(ctx context.Context, b *bench) error { return b.checkAndSet(ctx, "r", "late") },
		MutateRow:         func(ctx context.Context, b *bench) error { return b.table.Apply(ctx, "r", set("late")) },
		MutateRows: func(ctx context.Context, b *bench) error {
			_, err := b.table.ApplyBulk(ctx, []string{"r"}, []*bigtable.Mutation{set("late")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			h := NewHold()
			b.faults.Handle(always(h))
			ctx, giveUp := context.WithCancel(testContext(t))
			sent := make(chan error)
			go func() { sent <- send(ctx, b) }()
			h.Wait(t, 1)
			giveUp()
			wantCode(t, <-sent, codes.Canceled)
			b.wantStored(t, "r", "")
			h.Release()
			b.wantStored(t, "r", "late")
		})
	}
}

func TestDroppedRequestIsNeverDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(always(h))
	sent := make(chan error)
	go func() { sent <- b.checkAndSet(testContext(t), "r", "v") }()
	h.Wait(t, 1)
	h.Drop()
	wantCode(t, <-sent, codes.Unavailable)
	if n := b.delivered.Load(); n != 0 {
		t.Errorf("delivered %d times", n)
	}
}

func TestHeldAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(always(h.Answer()))
	type result struct {
		value string
		err   error
	}
	sent := make(chan result)
	go func() {
		v, err := b.add(testContext(t), "r")
		sent <- result{v, err}
	}()
	h.Wait(t, 1)
	b.wantStored(t, "r", "+")
	select {
	case got := <-sent:
		t.Errorf("answered %v before the release", got)
	default:
	}
	h.Release()
	if got := <-sent; got.err != nil || got.value != "+" {
		t.Errorf("answer %v", got)
	}
	if n := b.delivered.Load(); n != 1 {
		t.Errorf("delivered %d times, want once", n)
	}
}

func TestHeldCopyIsDeliveredInAddition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(always(h.Copy()))
	got, err := b.add(testContext(t), "r")
	if err != nil || got != "+" {
		t.Errorf("answer %q, %v", got, err)
	}
	b.wantStored(t, "r", "+")
	h.Release()
	b.wantStored(t, "r", "++")
}
