package orders

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestCrash: the client dies at each of its requests in turn while it places an order, which is
// then placed again. Stock, totals, index and warehouse agree.
func TestCrash(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		for n := int64(0); crashAt(t, n); n++ {
		}
	})
}

// crashAt reports whether the client had as many requests to send.
func crashAt(t *testing.T, n int64) (died bool) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	env := percolatortest.New(t, s.Schema())
	check := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, order := t.Context(), Order{Number: "A-1", Customer: "Ada", Item: "teapot", Quantity: 2, Placed: time.Now().UTC()}
	check(env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return onHand.Set(tx, "teapot", 5) }))
	s.Client = env.NewClient()
	var sent atomic.Int64
	env.FaultsOf(s.Client).Handle(func(percolatortest.Request) percolatortest.Action {
		if sent.Add(1) > n {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	_ = s.Place(ctx, order)
	died = env.FaultsOf(s.Client).Crashed()
	s.Client = env.Client
	if err := s.Place(ctx, order); !errors.Is(err, percolator.ErrExists) {
		check(nil, err)
	}
	shipped := 0
	r := observers.NewRegistry()
	s.Observe(r, func(_ context.Context, numbers []string) error { shipped += len(numbers); return nil })
	w, err := observers.NewWorker(env.Client, r, observers.Config{})
	check(nil, err)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	check(nil, w.WaitIdle(ctx))
	stop()
	check(nil, <-ended)
	check(nil, env.Client.View(ctx, func(ctx context.Context, r *percolator.Snapshot) error {
		left, err1 := onHand.Get(ctx, r, "teapot")
		sales, err2 := s.sales.Value(ctx, r, sold, "teapot")
		orders, err3 := s.OrdersOf(ctx, r, "Ada")
		if left != 3 || sales != 2 || len(orders) != 1 || orders["A-1"] != order || shipped == 0 {
			t.Errorf("died at %d: %d left, %d sold, orders %v, %d shipped", n, left, sales, orders, shipped)
		}
		return errors.Join(err1, err2, err3)
	}))
	env.Audit(t)
	return died
}
